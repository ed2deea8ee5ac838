// JSON as an archive has it: read whole, asked for with its type.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dy2st {

// What cannot be loaded or run, in words.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Json {
 public:
  enum class Kind : uint8_t { Null, Bool, Int, Float, Text, Array, Object };

  // Throws Error where the text is no JSON, is nested too deep, or has a key twice.
  static Json parse(std::string_view text, const std::string& name);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool boolean() const { return need(Kind::Bool), bool_; }
  int64_t integer() const { return need(Kind::Int), int_; }
  double number() const { return kind_ == Kind::Int ? static_cast<double>(int_) : (need(Kind::Float), float_); }
  const std::string& text() const { return need(Kind::Text), text_; }
  const std::vector<Json>& array() const { return need(Kind::Array), items_; }
  const std::vector<std::pair<std::string, Json>>& fields() const { return need(Kind::Object), fields_; }
  // As it was written; lies in the text that was parsed.
  std::string_view source() const { return source_; }
  const Json* find(std::string_view key) const;
  const Json& operator[](std::string_view key) const;

 private:
  friend class JsonReader;
  void need(Kind kind) const;
  Kind kind_ = Kind::Null;
  bool bool_ = false;
  int64_t int_ = 0;
  double float_ = 0;
  std::string text_;
  std::string_view source_;
  std::vector<Json> items_;
  std::vector<std::pair<std::string, Json>> fields_;
};

}  // namespace dy2st
