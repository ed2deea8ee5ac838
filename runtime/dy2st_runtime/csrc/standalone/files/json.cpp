#include "json.h"

#include <charconv>
#include <set>

namespace dy2st {
namespace {

constexpr int kDeepest = 1000;

void append_utf8(uint32_t code, std::string& to) {
  if (code < 0x80) {
    to += static_cast<char>(code);
  } else if (code < 0x800) {
    to += static_cast<char>(0xC0 | code >> 6);
    to += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    to += static_cast<char>(0xE0 | code >> 12);
    to += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    to += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    to += static_cast<char>(0xF0 | code >> 18);
    to += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    to += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    to += static_cast<char>(0x80 | (code & 0x3F));
  }
}

}  // namespace

class JsonReader {
 public:
  JsonReader(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Json whole() {
    Json found = value(0);
    space();
    if (at_ != text_.size()) fail("the end");
    return found;
  }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    throw Error(name_ + " is no JSON at byte " + std::to_string(at_) + ": expected " + expected);
  }
  void space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t')) ++at_;
  }
  bool take(char wanted) {
    space();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool word(std::string_view wanted) {
    if (text_.substr(at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    return true;
  }

  Json value(int depth) {
    if (depth > kDeepest) fail("less depth");
    space();
    const size_t start = at_;
    Json made;
    if (take('{')) {
      object(made, depth);
    } else if (take('[')) {
      array(made, depth);
    } else if (at_ < text_.size() && text_[at_] == '"') {
      made.kind_ = Json::Kind::Text;
      made.text_ = string();
    } else if (word("true") || word("false")) {
      made.kind_ = Json::Kind::Bool;
      made.bool_ = text_[at_ - 2] == 'u';
    } else if (!word("null")) {
      number(made);
    }
    made.source_ = text_.substr(start, at_ - start);
    return made;
  }

  void object(Json& made, int depth) {
    made.kind_ = Json::Kind::Object;
    std::set<std::string> known;
    if (take('}')) return;
    do {
      space();
      std::string key = string();
      if (!known.insert(key).second) fail("each key once");
      if (!take(':')) fail("':'");
      made.fields_.emplace_back(std::move(key), value(depth + 1));
    } while (take(','));
    if (!take('}')) fail("'}'");
  }

  void array(Json& made, int depth) {
    made.kind_ = Json::Kind::Array;
    if (take(']')) return;
    do made.items_.push_back(value(depth + 1));
    while (take(','));
    if (!take(']')) fail("']'");
  }

  void number(Json& made) {
    const size_t start = at_;
    bool whole = true;
    while (at_ < text_.size() && std::string_view("+-.0123456789eE").find(text_[at_]) != std::string_view::npos) {
      whole = whole && (text_[at_] == '-' || (text_[at_] >= '0' && text_[at_] <= '9'));
      ++at_;
    }
    const char *first = text_.data() + start, *last = text_.data() + at_;
    made.kind_ = whole ? Json::Kind::Int : Json::Kind::Float;
    const auto read = whole ? std::from_chars(first, last, made.int_) : std::from_chars(first, last, made.float_);
    if (whole && read.ec == std::errc::result_out_of_range) throw Error("a number beyond 64 bits needs Python");
    if (first == last || read.ec != std::errc() || read.ptr != last) fail("a value");
  }

  uint32_t hex() {
    uint32_t code = 0;
    const auto digits = text_.substr(at_, 4);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || read.ptr != digits.data() + 4) fail("four hexadecimal digits");
    at_ += 4;
    return code;
  }

  std::string string() {
    if (!take('"')) fail("a string");
    std::string made;
    while (true) {
      if (at_ >= text_.size() || static_cast<unsigned char>(text_[at_]) < 0x20) fail("the end of a string");
      const char next = text_[at_++];
      if (next == '"') return made;
      if (next != '\\') {
        made += next;
        continue;
      }
      static constexpr std::string_view kinds = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
      const char kind = at_ < text_.size() ? text_[at_++] : '\0';
      if (const auto found = kinds.find(kind); kind != '\0' && found != std::string_view::npos) {
        made += meant[found];
      } else if (kind == 'u') {
        uint32_t code = hex();
        if (code >= 0xD800 && code < 0xDC00 && word("\\u")) code = 0x10000 + ((code - 0xD800) << 10) + (hex() - 0xDC00);
        append_utf8(code, made);
      } else {
        fail("an escape");
      }
    }
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
};

Json Json::parse(std::string_view text, const std::string& name) { return JsonReader(text, name).whole(); }

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : fields()) {
    if (name == key) return &value;
  }
  return nullptr;
}

const Json& Json::operator[](std::string_view key) const {
  const Json* found = find(key);
  if (found == nullptr) throw Error("the archive has no field " + std::string(key) + " where one is needed");
  return *found;
}

void Json::need(Kind kind) const {
  static const char* const names[] = {"null", "true or false", "an integer", "a number", "a string", "an array", "an object"};
  if (kind_ == kind) return;
  throw Error(
      std::string("the archive has ") + names[static_cast<int>(kind_)] + " where " + names[static_cast<int>(kind)] + " is needed");
}

}  // namespace dy2st
