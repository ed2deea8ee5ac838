#include "npy.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>

#include "json.h"

namespace dy2st {
namespace {

const std::map<std::string, at::ScalarType> dtypes = {
    {"<f4", at::kFloat}, {"<f8", at::kDouble}, {"<f2", at::kHalf}, {"<i8", at::kLong}, {"<i4", at::kInt},          {"<i2", at::kShort},
    {"|i1", at::kChar},  {"|u1", at::kByte},   {"|b1", at::kBool}, {"<c8", at::kComplexFloat}, {"<c16", at::kComplexDouble}};

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = 6;

}  // namespace

at::Tensor read_npy(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream contents;
  contents << file.rdbuf();
  const std::string bytes = contents.str();
  if (!file || bytes.size() < 12 || bytes.compare(0, kMagicSize, kMagic, kMagicSize) != 0) throw Error(path + " is no .npy file that can be read");
  const size_t wide = bytes[6] > 1 ? 4 : 2;
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, wide);
  const size_t start = 8 + wide + length;
  if (start > bytes.size()) throw Error(path + " was cut short");
  const std::string header = bytes.substr(8 + wide, length);
  std::smatch descr, order, shape;
  if (!std::regex_search(header, descr, std::regex("'descr': *'([^']*)'")) ||
      !std::regex_search(header, order, std::regex("'fortran_order': *(True|False)")) ||
      !std::regex_search(header, shape, std::regex("'shape': *\\(([0-9, ]*)\\)"))) {
    throw Error(path + " has a header that is no .npy header");
  }
  const auto dtype = dtypes.find(descr[1]);
  if (dtype == dtypes.end()) throw Error(path + " has dtype " + descr[1].str() + ", which torch does not have; convert it with astype");
  std::vector<int64_t> sizes;
  std::stringstream numbers(shape[1]);
  for (std::string number; std::getline(numbers, number, ',');) {
    if (number.find_first_not_of(' ') != std::string::npos) sizes.push_back(std::stoll(number));
  }
  const bool fortran = order[1] == "True";
  if (fortran) sizes.assign(sizes.rbegin(), sizes.rend());
  const at::Tensor tensor = at::empty(sizes, at::TensorOptions().dtype(dtype->second));
  if (bytes.size() - start != tensor.nbytes()) throw Error(path + " has not as much data as its shape says");
  if (tensor.nbytes() > 0) std::memcpy(tensor.mutable_data_ptr(), bytes.data() + start, tensor.nbytes());
  if (!fortran) return tensor;
  std::vector<int64_t> reversed;
  for (int64_t dim = tensor.dim(); dim-- > 0;) reversed.push_back(dim);
  return tensor.permute(reversed);
}

void write_npy(const std::string& path, const at::Tensor& given) {
  const at::Tensor tensor = (given.scalar_type() == at::kBFloat16 ? given.to(at::kFloat) : given).detach().cpu().contiguous();
  std::string name;
  for (const auto& [text, dtype] : dtypes) {
    if (dtype == tensor.scalar_type()) name = text;
  }
  if (name.empty()) throw Error(std::string("a .npy file cannot hold ") + c10::toString(tensor.scalar_type()));
  std::string header = "{'descr': '" + name + "', 'fortran_order': False, 'shape': (";
  for (int64_t size : tensor.sizes()) header += std::to_string(size) + ",";
  header += "), }";
  header += std::string(63 - (kMagicSize + 4 + header.size()) % 64, ' ') + "\n";
  const auto length = static_cast<uint16_t>(header.size());
  std::ofstream file(path, std::ios::binary);
  file.write(kMagic, kMagicSize).write("\x01\x00", 2).write(reinterpret_cast<const char*>(&length), 2) << header;
  if (tensor.nbytes() > 0) file.write(static_cast<const char*>(tensor.const_data_ptr()), static_cast<std::streamsize>(tensor.nbytes()));
  if (!file.flush()) throw Error(path + " cannot be written");
}

}  // namespace dy2st
