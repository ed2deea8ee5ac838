// Lists and tuples, as Python's own. What would raise, and lists that Python code has seen, are left to Python.
#include <algorithm>
#include <unordered_map>

#include "program.h"
#include "python_bridge.h"

namespace dy2st {
namespace {

const Value& input(const Instruction& instruction, Frame& frame, size_t index) { return frame[instruction.inputs[index]]; }

void give(const Instruction& instruction, Frame& frame, Value value) {
  if (!instruction.outputs.empty()) frame[instruction.outputs[0]] = std::move(value);
}

// Methods of lists give None.
bool give_none(const Instruction& instruction, Frame& frame) {
  give(instruction, frame, Value::none());
  return true;
}

std::vector<Value>* list_of(const Value& value) { return is_native_list(value) ? &value.items().values : nullptr; }

// The same, of a list whose items are about to change their places.
std::vector<Value>* changed_list_of(const Value& value) {
  if (is_native_list(value)) value.items().positions.reset();
  return list_of(value);
}

std::vector<Value>* sequence_of(const Value& value) { return is_native_sequence(value) ? &value.items().values : nullptr; }

bool index_of(const Value& value, size_t size, size_t& to) {
  if (!value.is(Kind::Int)) return false;
  const int64_t index = value.as_int() < 0 ? value.as_int() + static_cast<int64_t>(size) : value.as_int();
  to = static_cast<size_t>(index);
  return index >= 0 && to < size;
}

template <bool tuple>
bool pack(const Instruction& instruction, Frame& frame) {
  std::vector<Value> items;
  items.reserve(instruction.inputs.size());
  for (int32_t source : instruction.inputs) items.push_back(frame[source]);
  give(instruction, frame, tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items)));
  return true;
}

bool copy(const Instruction& instruction, Frame& frame) {
  const auto* items = sequence_of(input(instruction, frame, 0));
  if (items == nullptr) return false;
  give(instruction, frame, Value::list(*items));
  return true;
}

bool append(const Instruction& instruction, Frame& frame) {
  const Value& to = input(instruction, frame, 0);
  if (Object* list = list_in_python(to)) {
    return append_in_python(frame, list, input(instruction, frame, 1)) && give_none(instruction, frame);
  }
  auto* items = list_of(to);
  if (items == nullptr) return false;
  items->push_back(Value(input(instruction, frame, 1)));
  return give_none(instruction, frame);
}

bool extend(const Instruction& instruction, Frame& frame) {
  auto* items = list_of(input(instruction, frame, 0));
  const auto* more = sequence_of(input(instruction, frame, 1));
  if (items == nullptr || more == nullptr) return false;
  const std::vector<Value> added = *more;  // it may be the same list
  items->insert(items->end(), added.begin(), added.end());
  return give_none(instruction, frame);
}

bool insert(const Instruction& instruction, Frame& frame) {
  auto* items = changed_list_of(input(instruction, frame, 0));
  const Value& at = input(instruction, frame, 1);
  if (items == nullptr || !at.is(Kind::Int)) return false;
  const int64_t size = static_cast<int64_t>(items->size());
  const int64_t index = std::clamp<int64_t>(at.as_int() < 0 ? at.as_int() + size : at.as_int(), 0, size);
  Value added(input(instruction, frame, 2));
  items->insert(items->begin() + index, std::move(added));
  return give_none(instruction, frame);
}

bool set(const Instruction& instruction, Frame& frame) {
  const Value& in = input(instruction, frame, 0);
  if (Object* list = list_in_python(in)) {
    return set_in_python(frame, list, input(instruction, frame, 1), input(instruction, frame, 2)) && give_none(instruction, frame);
  }
  auto* items = changed_list_of(in);
  size_t index = 0;
  if (items == nullptr || !index_of(input(instruction, frame, 1), items->size(), index)) return false;
  Value given(input(instruction, frame, 2));
  std::swap((*items)[index], given);
  return give_none(instruction, frame);
}

bool remove(const Instruction& instruction, Frame& frame) {
  auto* items = changed_list_of(input(instruction, frame, 0));
  size_t index = 0;
  if (items == nullptr || !index_of(input(instruction, frame, 1), items->size(), index)) return false;
  const Value dropped = std::move((*items)[index]);
  items->erase(items->begin() + static_cast<std::ptrdiff_t>(index));
  return give_none(instruction, frame);
}

bool pop(const Instruction& instruction, Frame& frame) {
  auto* items = changed_list_of(input(instruction, frame, 0));
  if (items == nullptr || items->empty()) return false;
  size_t index = items->size() - 1;
  if (instruction.inputs.size() > 1 && !index_of(input(instruction, frame, 1), items->size(), index)) return false;
  Value taken = std::move((*items)[index]);
  items->erase(items->begin() + static_cast<std::ptrdiff_t>(index));
  give(instruction, frame, std::move(taken));
  return true;
}

bool clear(const Instruction& instruction, Frame& frame) {
  auto* items = changed_list_of(input(instruction, frame, 0));
  if (items == nullptr) return false;
  std::vector<Value> dropped;
  dropped.swap(*items);
  return give_none(instruction, frame);
}

bool reverse(const Instruction& instruction, Frame& frame) {
  auto* items = changed_list_of(input(instruction, frame, 0));
  if (items == nullptr) return false;
  std::reverse(items->begin(), items->end());
  return give_none(instruction, frame);
}

template <bool any>
bool get(const Instruction& instruction, Frame& frame) {
  const Value& from = input(instruction, frame, 0);
  if (Object* sequence = any && from.is(Kind::Object) ? from.object() : list_in_python(from)) {
    Value item;
    if (!get_in_python(frame, sequence, input(instruction, frame, 1), item)) return false;
    give(instruction, frame, std::move(item));
    return true;
  }
  const auto* items = any ? sequence_of(from) : list_of(from);
  size_t index = 0;
  if (items == nullptr || !index_of(input(instruction, frame, 1), items->size(), index)) return false;
  give(instruction, frame, Value((*items)[index]));
  return true;
}

// Inputs: list, start, stop, step, each bound a number or None.
bool slice(const Instruction& instruction, Frame& frame) {
  const auto* items = list_of(input(instruction, frame, 0));
  int64_t step = 1;
  const Value& stride = input(instruction, frame, 3);
  if (stride.is(Kind::Int)) {
    step = stride.as_int();
  } else if (!stride.is(Kind::None)) {
    return false;
  }
  constexpr int64_t limit = int64_t{1} << 61;
  if (items == nullptr || step == 0 || step > limit || step < -limit) return false;
  const int64_t size = static_cast<int64_t>(items->size());
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto bound = [&](const Value& value, int64_t missing, int64_t& to) {
    if (value.is(Kind::None)) return to = missing, true;
    if (!value.is(Kind::Int) || value.as_int() > limit || value.as_int() < -limit) return false;
    to = std::clamp(value.as_int() < 0 ? value.as_int() + size : value.as_int(), low, high);
    return true;
  };
  int64_t start = 0, stop = 0;
  if (!bound(input(instruction, frame, 1), step > 0 ? low : high, start)) return false;
  if (!bound(input(instruction, frame, 2), step > 0 ? high : low, stop)) return false;
  std::vector<Value> taken;
  for (int64_t index = start; step > 0 ? index < stop : index > stop; index += step) taken.push_back((*items)[index]);
  give(instruction, frame, Value::list(std::move(taken)));
  return true;
}

bool length(const Instruction& instruction, Frame& frame) {
  const Value& of = input(instruction, frame, 0);
  if (Object* list = list_in_python(of)) {
    Value size;
    if (!length_in_python(frame, list, size)) return false;
    give(instruction, frame, std::move(size));
    return true;
  }
  const auto* items = sequence_of(of);
  if (items == nullptr) return false;
  give(instruction, frame, Value::of(static_cast<int64_t>(items->size())));
  return true;
}

bool concat(const Instruction& instruction, Frame& frame) {
  const auto *first = list_of(input(instruction, frame, 0)), *second = list_of(input(instruction, frame, 1));
  if (first == nullptr || second == nullptr) return false;
  std::vector<Value> items = *first;
  items.insert(items.end(), second->begin(), second->end());
  give(instruction, frame, Value::list(std::move(items)));
  return true;
}

enum class Match : uint8_t { No, Yes, Unknown };

// Whether an int and a float are one number: a float has no place for all digits of an int.
bool equal(int64_t whole, double number) {
  constexpr double limit = 9223372036854775808.0;
  return number >= -limit && number < limit && static_cast<double>(static_cast<int64_t>(number)) == number &&
         static_cast<int64_t>(number) == whole;
}

// Numbers and tuples, as ``==`` of Python compares them; it says itself what anything else is.
Match match(const Value& key, const Value& other) {
  const auto is_whole = [](const Value& value) { return value.is(Kind::Int) || value.is(Kind::Bool); };
  const auto whole = [](const Value& value) { return value.is(Kind::Bool) ? int64_t{value.as_bool()} : value.as_int(); };
  const auto as_match = [](bool alike) { return alike ? Match::Yes : Match::No; };
  if (is_whole(key) && is_whole(other)) return as_match(whole(key) == whole(other));
  if (is_whole(key) && other.is(Kind::Float)) return as_match(equal(whole(key), other.as_float()));
  if (key.is(Kind::Float) && is_whole(other)) return as_match(equal(whole(other), key.as_float()));
  if (key.is(Kind::Float) && other.is(Kind::Float)) return as_match(key.as_float() == other.as_float());
  const auto is_plain = [&](const Value& value) {
    return is_whole(value) || value.is(Kind::Float) || value.is(Kind::None) || (value.is(Kind::Tuple) && is_native_sequence(value));
  };
  if (!is_plain(key) || !is_plain(other)) return Match::Unknown;
  if (!key.is(Kind::Tuple) || !other.is(Kind::Tuple)) return as_match(key.is(Kind::None) && other.is(Kind::None));
  const auto &mine = key.items().values, &others = other.items().values;
  if (mine.size() != others.size()) return Match::No;
  for (size_t index = 0; index < mine.size(); ++index) {
    const Match part = match(mine[index], others[index]);
    if (part != Match::Yes) return part;
  }
  return Match::Yes;
}

// Whether a whole number was looked up in a map of the items, which is worth making once many have been looked at.
bool find_mapped(Items& items, int64_t key, int64_t& to) {
  const auto& values = items.values;
  if (items.positions == nullptr) items.positions = std::make_unique<Positions>();
  Positions& positions = *items.positions;
  if (positions.known == 0 && positions.searched < 4 * values.size()) return false;
  for (; positions.known < values.size(); ++positions.known) {
    const Value& value = values[positions.known];
    if (!value.is(Kind::Int)) return false;
    positions.first.emplace(value.as_int(), positions.known);
  }
  const auto found = positions.first.find(key);
  to = found == positions.first.end() ? -1 : static_cast<int64_t>(found->second);
  return true;
}

bool find(const Instruction& instruction, Frame& frame) {
  const Value& given = input(instruction, frame, 0);
  const auto* keys = list_of(given);
  if (keys == nullptr) return false;
  const Value& key = input(instruction, frame, 1);
  constexpr size_t few = 16;
  int64_t position = -1;
  if (key.is(Kind::Int) && keys->size() > few && find_mapped(given.items(), key.as_int(), position)) {
    give(instruction, frame, Value::of(position));
    return true;
  }
  for (size_t index = 0; index < keys->size() && position < 0; ++index) {
    const Match found = match(key, (*keys)[index]);
    if (found == Match::Unknown) return false;
    if (found == Match::Yes) position = static_cast<int64_t>(index);
  }
  if (given.items().positions != nullptr) given.items().positions->searched += position < 0 ? keys->size() : static_cast<size_t>(position);
  give(instruction, frame, Value::of(position));
  return true;
}

bool take(const Instruction& instruction, Frame& frame) {
  const auto *items = sequence_of(input(instruction, frame, 0)), *positions = sequence_of(input(instruction, frame, 1));
  if (items == nullptr || positions == nullptr) return false;
  std::vector<Value> taken;
  for (const Value& position : *positions) {
    size_t index = 0;
    if (!index_of(position, items->size(), index)) return false;
    taken.push_back((*items)[index]);
  }
  give(instruction, frame, Value::list(std::move(taken)));
  return true;
}

}  // namespace

Handler list_handler(const std::string& name) {
  static const std::unordered_map<std::string, Handler> table = {
      {"list", pack<false>},
      {"tuple", pack<true>},
      {"slice", slice},
      {"operator.getitem", get<true>},
      {"list_", copy},
      {"list_copy", copy},
      {"list_append", append},
      {"list_extend", extend},
      {"list_insert", insert},
      {"list_set", set},
      {"list_delete", remove},
      {"list_pop", pop},
      {"list_clear", clear},
      {"list_reverse", reverse},
      {"list_get", get<false>},
      {"list_len", length},
      {"list_concat", concat},
      {"list_find", find},
      {"list_take", take},
  };
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace dy2st
