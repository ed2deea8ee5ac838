#include "document.h"

#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "../files/dtypes.h"
#include "../method.h"
#include "../text.h"
#include "container.h"
#include "weights.h"

namespace dy2st {
namespace {

bool is_tensor_entry(const Json& entry) {
  static const std::set<std::string> others = {"module", "number", "container"};
  return others.count(entry["kind"].text()) == 0;
}

std::string state_text(const std::string& name, const Value& value) {
  if (value.is(Kind::Bool)) return value.as_bool() ? "true" : "false";
  if (value.is(Kind::Int)) return std::to_string(value.as_int());
  if (!value.is(Kind::Float)) throw Error(name + " was a number when the model was saved and is none now, which the file cannot hold");
  const double number = value.as_float();
  if (!std::isfinite(number)) return std::string("{\"float\":\"") + (std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf") + "\"}";
  return number_text(number);
}

// The fields of an entry that stay as they are, those that this version does not know last.
std::string kept_fields(const Json& entry) {
  static const std::set<std::string> rewritten = {"same_as", "requires_grad", "tensor", "shape", "stride", "offset", "number"};
  std::string text;
  for (const auto& [key, value] : entry.fields()) {
    if (rewritten.count(key) == 0) text += (text.empty() ? "{\"" : ",\"") + key + "\":" + std::string(value.source());
  }
  return text;
}

class States {
 public:
  States(const Json& table, State& state) : table_(table), state_(state) {
    for (const Json& entry : table.array()) {
      if (!is_tensor_entry(entry)) continue;
      const std::string& name = entry["name"].text();
      const Value& value = state_[name];
      if (!value.is(Kind::Tensor)) throw Error(name + " was a tensor when the model was saved and is none now, which the file cannot hold");
      if (first_.emplace(value.tensor().unsafeGetTensorImpl(), tensors_.size()).second) {
        tensors_.push_back({name, entry["name"].source(), value.tensor()});
      }
    }
    packed_ = pack(tensors_);
  }

  const std::vector<Named>& stored() const { return packed_.stored; }

  // The table of state in program.json.
  std::string text() {
    std::string text = "[";
    for (const Json& entry : table_.array()) text += (text.size() > 1 ? "," : "") + entry_text(entry);
    return text + "]";
  }

  // The same in signature.json, for people.
  std::string description() {
    std::string text;
    for (const Json& entry : table_.array()) {
      text += (text.empty() ? "[\n    {\n      \"name\": " : ",\n    {\n      \"name\": ") + std::string(entry["name"].source());
      text += ",\n      \"kind\": " + std::string(entry["kind"].source());
      if (is_tensor_entry(entry)) {
        const at::Tensor& tensor = state_[entry["name"].text()].tensor();
        text += ",\n      \"dtype\": \"" + dtype_name(tensor.scalar_type()) + "\",\n      \"shape\": [";
        for (int64_t dim = 0; dim < tensor.dim(); ++dim) text += (dim > 0 ? ",\n        " : "\n        ") + std::to_string(tensor.size(dim));
        text += tensor.dim() > 0 ? "\n      ]" : "]";
      }
      text += "\n    }";
    }
    return text.empty() ? "[]" : text + "\n  ]";
  }

 private:
  std::string entry_text(const Json& entry) {
    const std::string &name = entry["name"].text(), &kind = entry["kind"].text();
    if (kind == "module" || kind == "container") return std::string(entry.source());
    if (kind == "number") return kept_fields(entry) + ",\"number\":" + state_text(name, state_[name]) + "}";
    const at::Tensor& tensor = state_[name].tensor();
    const size_t index = first_.at(tensor.unsafeGetTensorImpl());
    if (tensors_[index].name != name) return kept_fields(entry) + ",\"same_as\":" + std::string(tensors_[index].written) + "}";
    const Place& place = packed_.places[index];
    std::string text = kept_fields(entry) + ",\"requires_grad\":" + (tensor.requires_grad() && tensor.is_leaf() ? "true" : "false");
    text += ",\"tensor\":" + std::string(place.stored);
    if (!place.whole) {
      text += ",\"shape\":" + numbers_text(place.sizes) + ",\"stride\":" + numbers_text(place.strides) + ",\"offset\":" + std::to_string(place.offset);
    }
    return text + "}";
  }

  const Json& table_;
  State& state_;
  std::vector<Named> tensors_;
  std::map<const at::TensorImpl*, size_t> first_;
  Packed packed_;
};

// A text with another one in the place of a part of it.
std::string replaced(std::string_view text, std::string_view part, const std::string& by) {
  const auto at = static_cast<size_t>(part.data() - text.data());
  return std::string(text.substr(0, at)) + by + std::string(text.substr(at + part.size()));
}

void check_slots(const Json& program, State& state) {
  for (const Json& slot : program["states"].array()) {
    const std::string& name = slot["name"].text();
    const Value& value = state[name];
    const Json* dtype = slot.find("dtype");
    if (dtype == nullptr || dtype->is(Json::Kind::Null)) continue;
    const at::Tensor& tensor = value.tensor();
    const auto wanted = dtype_of(dtype->text());
    const auto& shape = slot["shape"].array();
    bool fits = tensor.scalar_type() == wanted || (at::isFloatingType(wanted) && at::isFloatingType(tensor.scalar_type()));
    fits = fits && tensor.dim() == static_cast<int64_t>(shape.size());
    for (size_t dim = 0; fits && dim < shape.size(); ++dim) {
      fits = !shape[dim].is(Json::Kind::Int) || shape[dim].integer() == tensor.size(static_cast<int64_t>(dim));
    }
    if (!fits) throw Error(name + " has not the dtype and size now that " + program["name"].text() + " needs");
  }
  if (const Json* recording = program.find("recording")) check_slots(*recording, state);
}

std::string manifest_text(const Json& document, const std::vector<Member>& members) {
  const auto& version = document["version"].array();
  std::string text = "{\n  \"format\": \"dy2st\",\n  \"version\": [\n    " + std::to_string(version.at(0).integer()) + ",\n    " +
                     std::to_string(version.at(1).integer()) + "\n  ],\n  \"members\": {";
  for (size_t index = 0; index < members.size(); ++index) {
    text += (index > 0 ? ",\n    \"" : "\n    \"") + members[index].name + "\": {\n      \"size\": " +
            std::to_string(size_of(members[index].parts)) + ",\n      \"sha256\": \"" + sha256(members[index].parts) + "\"\n    }";
  }
  return text + "\n  }\n}";
}

}  // namespace

void write_model(const std::string& path, const Archive& archive, const Json& document, State& state) {
  try {
    States states(document["state"], state);
    for (const auto& [name, programs] : methods_of(document)) {
      for (const Json& program : *programs) check_slots(program, state);
    }
    const Json described = Json::parse(archive.member("signature.json"), "signature.json");
    const std::string program = replaced(archive.member("program.json"), document["state"].source(), states.text());
    const std::string signature = replaced(archive.member("signature.json"), described["state"].source(), states.description());
    std::string header;
    std::vector<Member> members = {
        {"program.json", {program}}, {"signature.json", {signature}}, {"weights.safetensors", weights_file(states.stored(), header)}};
    if (archive.has("examples.safetensors")) members.push_back({"examples.safetensors", {archive.member("examples.safetensors")}});
    const std::string manifest = manifest_text(document, members);
    members.insert(members.begin(), {"manifest.json", {manifest}});
    write_container(path, members);
  } catch (const c10::Error& error) {
    throw Error("cannot write " + path + ": " + error.what_without_backtrace());
  }
}

}  // namespace dy2st
