// Calls of operators through the dispatcher's stack: works for every operator whose arguments have a native form.
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <set>

#include "arguments.h"
#include "updates.h"
#include "../python_bridge.h"
#include "../tape/tape.h"

namespace dy2st {
namespace {

template <class T>
void push_list(const std::vector<T>& items, std::vector<c10::IValue>& stack) {
  c10::List<T> list;
  list.reserve(items.size());
  for (const T& item : items) list.push_back(item);
  stack.emplace_back(std::move(list));
}

bool push_floats(const Argument& argument, Frame& frame) {
  Elements elements;
  if (!elements.load(argument, frame)) return false;
  std::vector<double> numbers(elements.size());
  for (size_t index = 0; index < numbers.size(); ++index) {
    if (!load_float(elements[index], numbers[index])) return false;
  }
  push_list(numbers, frame.stack);
  return true;
}

bool push_bools(const Argument& argument, Frame& frame) {
  Elements elements;
  if (!elements.load(argument, frame)) return false;
  c10::List<bool> list;
  for (size_t index = 0; index < elements.size(); ++index) {
    if (!elements[index].is(Kind::Bool)) return false;
    list.push_back(elements[index].as_bool());
  }
  frame.stack.emplace_back(std::move(list));
  return true;
}

bool push_scalars(const Argument& argument, Frame& frame) {
  Elements elements;
  if (!elements.load(argument, frame)) return false;
  std::vector<at::Scalar> numbers(elements.size());
  for (size_t index = 0; index < numbers.size(); ++index) {
    if (!load_scalar(elements[index], numbers[index])) return false;
  }
  push_list(numbers, frame.stack);
  return true;
}

bool push_list_argument(const Argument& argument, Frame& frame) {
  switch (argument.want) {
    case Want::Ints: {
      std::vector<int64_t> numbers;
      if (!load_ints(argument, frame, numbers)) return false;
      push_list(numbers, frame.stack);
      return true;
    }
    case Want::Floats:
      return push_floats(argument, frame);
    case Want::Bools:
      return push_bools(argument, frame);
    case Want::Scalars:
      return push_scalars(argument, frame);
    case Want::Tensors: {
      std::vector<at::Tensor> tensors;
      if (!load_tensors(argument, frame, tensors)) return false;
      push_list(tensors, frame.stack);
      return true;
    }
    default: {
      c10::List<std::optional<at::Tensor>> tensors;
      if (!load_optional_tensors(argument, frame, tensors)) return false;
      frame.stack.emplace_back(std::move(tensors));
      return true;
    }
  }
}

bool push_tensor(const Argument& argument, const Value& value, std::vector<c10::IValue>& stack) {
  at::Tensor number;
  if (value.is(Kind::Tensor)) {
    stack.emplace_back(value.tensor());
  } else if (argument.number_as_tensor && load_number_tensor(value, number)) {
    stack.emplace_back(std::move(number));
  } else {
    return false;
  }
  return true;
}

bool push_number(Want want, const Value& value, std::vector<c10::IValue>& stack) {
  int64_t integer = 0;
  double real = 0;
  at::Scalar scalar;
  if (want == Want::Int && value.is(Kind::Int) && load_int(value, integer)) {
    stack.emplace_back(integer);
  } else if (want == Want::Float && load_float(value, real)) {
    stack.emplace_back(real);
  } else if (want == Want::Bool && value.is(Kind::Bool)) {
    stack.emplace_back(value.as_bool());
  } else if (want == Want::Scalar && load_scalar(value, scalar)) {
    stack.emplace_back(scalar);
  } else {
    return false;
  }
  return true;
}

bool push(const Argument& argument, Frame& frame) {
  if (argument.source < 0 && !argument.is_list) {
    frame.stack.push_back(argument.constant);
    return true;
  }
  if (!argument.is_list && argument.optional && frame[argument.source].is(Kind::None)) {
    frame.stack.emplace_back();
    return true;
  }
  if (argument.want >= Want::Ints) return argument.want != Want::Constant && push_list_argument(argument, frame);
  if (argument.is_list) return false;
  const Value& value = frame[argument.source];
  return argument.want == Want::Tensor ? push_tensor(argument, value, frame.stack) : push_number(argument.want, value, frame.stack);
}

template <class List>
Value value_of_list(const List& list) {
  std::vector<Value> items;
  items.reserve(list.size());
  for (const auto& item : list) {
    if constexpr (std::is_same_v<List, std::vector<at::Tensor>>) {
      items.push_back(Value::of(at::Tensor(item)));
    } else {
      items.push_back(Value::of(item));
    }
  }
  return Value::list(std::move(items));
}

Value value_of(c10::IValue&& result) {
  if (result.isTensor()) return Value::of(std::move(result).toTensor());
  if (result.isInt()) return Value::of(result.toInt());
  if (result.isDouble()) return Value::of(result.toDouble());
  if (result.isBool()) return Value::of(result.toBool());
  if (result.isTensorList()) return value_of_list(result.toTensorVector());
  if (result.isIntList()) return value_of_list(result.toIntVector());
  if (result.isDoubleList()) return value_of_list(result.toDoubleVector());
  TORCH_CHECK(result.isNone(), "dy2st: a result of kind ", result.tagKind());
  return Value::none();
}

bool is_result(const c10::TypePtr& type) {
  using c10::TypeKind;
  switch (type->kind()) {
    case TypeKind::TensorType:
    case TypeKind::IntType:
    case TypeKind::SymIntType:
    case TypeKind::FloatType:
    case TypeKind::BoolType:
      return true;
    case TypeKind::ListType: {
      const auto kind = type->castRaw<c10::ListType>()->getElementType()->kind();
      return kind == TypeKind::TensorType || kind == TypeKind::IntType || kind == TypeKind::FloatType;
    }
    default:
      return false;
  }
}

// What a parameter takes, and whether None too.
Want want_of(const c10::TypePtr& given, bool& optional) {
  using c10::TypeKind;
  c10::TypePtr type = given;
  if (type->kind() == TypeKind::OptionalType) {
    optional = true;
    type = type->castRaw<c10::OptionalType>()->getElementType();
  }
  switch (type->kind()) {
    case TypeKind::TensorType:
      return Want::Tensor;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return Want::Int;
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
      return Want::Float;
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
      return Want::Bool;
    case TypeKind::NumberType:
      return Want::Scalar;
    case TypeKind::ListType: {
      bool optional_items = false;
      switch (want_of(type->castRaw<c10::ListType>()->getElementType(), optional_items)) {
        case Want::Tensor:
          return optional_items ? Want::OptionalTensors : Want::Tensors;
        case Want::Int:
          return Want::Ints;
        case Want::Float:
          return Want::Floats;
        case Want::Bool:
          return Want::Bools;
        case Want::Scalar:
          return Want::Scalars;
        default:
          return Want::Constant;
      }
    }
    default:
      return Want::Constant;
  }
}

// A constant in a register becomes part of the instruction.
void fold_constant(const Program& program, const c10::Argument& parameter, Argument& argument) {
  const auto constant = [&](int32_t source) -> const Value* {
    return source >= 0 && static_cast<size_t>(source) < program.constants.size() ? &program.constants[source] : nullptr;
  };
  if (argument.want == Want::Ints) {
    const Value* single = constant(argument.source);
    if (single != nullptr && single->is(Kind::Int) && parameter.N()) {  // int[2] also takes one int
      argument.ints.assign(*parameter.N(), single->as_int());
    } else if (argument.is_list) {
      for (int32_t source : argument.sources) {
        const Value* item = constant(source);
        if (item == nullptr || !item->is(Kind::Int)) {
          argument.ints.clear();
          return;
        }
        argument.ints.push_back(item->as_int());
      }
    } else {
      return;
    }
    argument.is_list = false;
    argument.source = -1;
    argument.constant = c10::IValue(argument.ints);
  } else if (argument.want == Want::Tensor && argument.number_as_tensor) {
    const Value* number = constant(argument.source);
    at::Tensor made;
    if (number != nullptr && load_number_tensor(*number, made)) {
      argument.number_source = std::exchange(argument.source, -1);
      argument.tensor = made;
      argument.constant = made;
    }
  }
}

// TensorIterator would convert a number to the type of a float tensor each time, with the same rounding.
void pair_number(Instruction& instruction) {
  static const std::set<std::string> names = {"aten::add.Tensor",  "aten::sub.Tensor",  "aten::mul.Tensor",  "aten::div.Tensor",
                                              "aten::add_.Tensor", "aten::sub_.Tensor", "aten::mul_.Tensor", "aten::div_.Tensor"};
  if (names.count(instruction.name) == 0 || !instruction.arguments[1].tensor || instruction.arguments[0].source < 0) return;
  Argument& number = instruction.arguments[1];
  if (number.tensor->scalar_type() == at::kBool) return;
  number.as_float = number.tensor->to(at::kFloat);
  number.as_float->unsafeGetTensorImpl()->set_wrapped_number(true);
  number.partner = instruction.arguments[0].source;
}

bool shares(const c10::OperatorHandle& op) {
  static const std::set<std::string> fresh = {
      "aten::linear", "aten::matmul", "aten::layer_norm", "aten::batch_norm", "aten::conv1d", "aten::conv2d", "aten::dropout",
      "aten::softmax", "aten::log_softmax", "aten::cross_entropy_loss", "aten::scaled_dot_product_attention", "aten::rms_norm",
      "aten::item", "aten::is_nonzero", "aten::max_pool2d", "aten::group_norm", "aten::embedding", "aten::sym_size",
      "aten::square", "aten::stack", "aten::where", "aten::std", "aten::var", "aten::lstm_cell", "aten::gru_cell"};
  const auto& schema = op.schema();
  for (const auto* side : {&schema.arguments(), &schema.returns()}) {
    for (const auto& argument : *side) {
      if (argument.alias_info() != nullptr) return true;
    }
  }
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) && fresh.count(schema.name()) == 0;
}

bool load_size(const Instruction& instruction, Frame& frame) {
  const auto& arguments = instruction.arguments;
  const Value& tensor = frame[arguments[0].source];
  int64_t dim = 0;
  if (arguments[1].source < 0 || !tensor.is(Kind::Tensor) || !load_int(frame[arguments[1].source], dim)) return false;
  frame[instruction.outputs[0]] = Value::of(tensor.tensor().size(dim));
  return true;
}

bool load_item(const Instruction& instruction, Frame& frame) {
  const Value& value = frame[instruction.arguments[0].source];
  if (!value.is(Kind::Tensor)) return false;
  const at::Tensor& tensor = value.tensor();
  Value& to = frame[instruction.outputs[0]];
  if (tensor.numel() == 1 && tensor.is_cpu() && tensor.has_storage() && !tensor.is_neg()) {  // whose memory holds the opposite
    const void* data = tensor.const_data_ptr();
    switch (tensor.scalar_type()) {
      case at::kFloat:
        return to = Value::of(static_cast<double>(*static_cast<const float*>(data))), true;
      case at::kDouble:
        return to = Value::of(*static_cast<const double*>(data)), true;
      case at::kLong:
        return to = Value::of(*static_cast<const int64_t*>(data)), true;
      case at::kBool:
        return to = Value::of(*static_cast<const bool*>(data)), true;
      default:
        break;
    }
  }
  const at::Scalar item = tensor.item();
  if (item.isBoolean()) {
    to = Value::of(item.toBool());
  } else if (item.isFloatingPoint()) {
    to = Value::of(item.toDouble());
  } else if (item.isIntegral(false) && item.type() == at::kLong) {
    to = Value::of(item.toLong());
  } else {
    return false;
  }
  return true;
}

// Whether an operator makes tensors of numbers alone. Eager's Python functions call those below autograd: what they
// fill in place is no version.
bool is_factory(const c10::FunctionSchema& schema) {
  bool makes = false;
  for (const auto& parameter : schema.arguments()) {
    if (parameter.type()->kind() == c10::TypeKind::TensorType) return false;
    makes = makes || parameter.name() == "pin_memory";
  }
  return makes;
}

bool call_factory(const Instruction& instruction, Frame& frame) {
  at::AutoDispatchBelowADInplaceOrView below;
  return call_boxed(instruction, frame);
}

}  // namespace

bool prepare_operator(Program& program, Instruction& instruction) {
  const auto& schema = instruction.op->schema();
  const bool numbers = takes_numbers(schema.name().substr(schema.name().find(':') + 2));
  for (size_t index = 0; index < instruction.arguments.size(); ++index) {
    Argument& argument = instruction.arguments[index];
    const auto& parameter = schema.arguments()[index];
    argument.want = want_of(parameter.real_type(), argument.optional);
    argument.number_as_tensor = numbers && argument.want == Want::Tensor;
    if (argument.want == Want::Constant && (argument.source >= 0 || argument.is_list)) return false;
    fold_constant(program, parameter, argument);
  }
  instruction.aliases = shares(*instruction.op);
  instruction.only_reads = only_reads(instruction.name);
  instruction.rule = rule_of(program, instruction);
  if (instruction.name == "aten::sym_size.int" || instruction.name == "aten::item" || instruction.name == "aten::_local_scalar_dense") {
    instruction.handler = instruction.name == "aten::sym_size.int" ? load_size : load_item;
    return instruction.arguments[0].source >= 0;
  }
  for (const auto& result : schema.returns()) {
    if (!is_result(result.real_type())) return false;
  }
  instruction.handler = typed_handler(program, instruction);
  if (is_factory(schema)) instruction.handler = call_factory;
  if (instruction.handler == nullptr) instruction.handler = call_boxed;
  pair_number(instruction);
  instruction.general = instruction.handler;
  if (Handler direct = pointwise_handler(program, instruction)) instruction.handler = direct;
  if (Handler direct = update_handler(instruction)) instruction.handler = direct;
  return true;
}

bool call_boxed(const Instruction& instruction, Frame& frame) {
  auto& stack = frame.stack;
  stack.clear();
  for (const Argument& argument : instruction.arguments) {
    if (!push(argument, frame)) {
      stack.clear();
      return false;
    }
  }
  instruction.op->callBoxed(stack);
  const auto& outputs = instruction.outputs;
  if (instruction.spread) {
    for (size_t index = 0; index < outputs.size(); ++index) {
      if (outputs[index] >= 0) frame[outputs[index]] = value_of(std::move(stack[index]));
    }
  } else if (!outputs.empty()) {
    if (stack.size() == 1) {
      frame[outputs[0]] = value_of(std::move(stack[0]));
    } else if (stack.empty()) {
      frame[outputs[0]] = Value::none();
    } else {
      std::vector<Value> items;
      for (auto& item : stack) items.push_back(value_of(std::move(item)));
      frame[outputs[0]] = Value::tuple(std::move(items));
    }
  }
  stack.clear();
  return true;
}

}  // namespace dy2st
