#include "model.h"

#include "writing/document.h"
#include "lowering/lower.h"

namespace dy2st {
namespace {

constexpr int64_t kMajor = 1;

}  // namespace

Model::Model(const std::string& path, const std::string& method, bool training) : path_(path), archive_(path) {
  try {
    document_ = Json::parse(archive_.member("program.json"), "program.json");
    const auto& version = document_["version"].array();
    if (document_["format"].text() != "dy2st" || version.at(0).integer() != kMajor) throw Error("its format is another version's");
    state_ = std::make_unique<State>(document_["state"], archive_);
  } catch (const std::exception& error) {
    throw Error(path_ + " cannot be loaded: " + error.what());
  }
  use(method, training);
}

Model::~Model() = default;

void Model::use(const std::string& method, bool training) {
  try {
    auto made = std::make_unique<Method>(program_of(document_, method, training), *state_);
    if (made->trains() && !gradients_) {
      state_->require_gradients(document_["state"]);
      gradients_ = true;
    }
    method_ = std::move(made);
  } catch (const std::exception& error) {
    throw Error(path_ + " cannot be loaded: " + error.what());
  }
}

std::vector<std::string> Model::methods() const {
  std::vector<std::string> names;
  for (const auto& [name, programs] : methods_of(document_)) names.push_back(name);
  return names;
}

std::vector<std::string> Model::training_steps() const {
  std::vector<std::string> names;
  for (const auto& [name, programs] : methods_of(document_)) {
    if (!programs->empty() && dy2st::trains(programs->front())) names.push_back(name);
  }
  return names;
}

std::vector<Model::Output> Model::run(const std::vector<at::Tensor>& inputs) {
  std::vector<Value> values;
  for (const at::Tensor& input : inputs) values.push_back(Value::of(input));
  return run(values);
}

std::vector<Model::Output> Model::run(const std::vector<Value>& inputs) { return method_->run(inputs, *state_, gradients_); }

void Model::save(const std::string& path) { write_model(path, archive_, document_, *state_); }

}  // namespace dy2st
