#include "dtypes.h"

#include <map>

#include "json.h"

namespace dy2st {
namespace {

using Table = std::map<std::string, at::ScalarType>;

const Table stored = {{"F64", at::kDouble}, {"F32", at::kFloat},   {"F16", at::kHalf}, {"BF16", at::kBFloat16}, {"I64", at::kLong},
                      {"I32", at::kInt},    {"I16", at::kShort},   {"I8", at::kChar},  {"U8", at::kByte},       {"BOOL", at::kBool},
                      {"C64", at::kComplexFloat}};
const Table known = {{"float64", at::kDouble}, {"float32", at::kFloat}, {"float16", at::kHalf}, {"bfloat16", at::kBFloat16},
                     {"int64", at::kLong},     {"int32", at::kInt},     {"int16", at::kShort},  {"int8", at::kChar},
                     {"uint8", at::kByte},     {"bool", at::kBool},     {"complex64", at::kComplexFloat},
                     {"complex128", at::kComplexDouble}};

std::optional<std::string> name_in(const Table& table, at::ScalarType dtype) {
  for (const auto& [name, one] : table) {
    if (one == dtype) return name;
  }
  return std::nullopt;
}

}  // namespace

at::ScalarType dtype_of(const std::string& name) {
  const auto one = known.find(name);
  if (one == known.end()) throw Error("dtype " + name + " needs Python");
  return one->second;
}

std::string dtype_name(at::ScalarType dtype) { return name_in(known, dtype).value_or(c10::toString(dtype)); }

std::optional<at::ScalarType> stored_dtype(const std::string& name) {
  const auto one = stored.find(name);
  return one == stored.end() ? std::nullopt : std::optional(one->second);
}

std::optional<std::string> stored_name(at::ScalarType dtype) { return name_in(stored, dtype); }

}  // namespace dy2st
