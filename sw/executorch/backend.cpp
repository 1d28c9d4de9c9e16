// Backend of ExecuTorch whose programs are loaded and run by functions of Python.

#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace et = executorch::runtime;

namespace {

constexpr int kTextBytes = 512;

struct Operand {
  void* data;
  uint64_t bytes;
};

// Functions of Python: a number above 0, or 0 and the text of an error.
using Load = int64_t (*)(const void* program, uint64_t bytes, char* text);
using Run = int64_t (*)(int64_t number, const Operand* operands, uint64_t count, char* text);
using Close = void (*)(int64_t number);

class Backend final : public et::BackendInterface {
 public:
  Backend(Load load, Run run, Close close) : load_(load), run_(run), close_(close) {}

  bool is_available() const override { return true; }

  et::Result<et::DelegateHandle*> init(
      et::BackendInitContext&,
      et::FreeableBuffer* processed,
      et::ArrayRef<et::CompileSpec>) const override {
    char text[kTextBytes] = "";
    const int64_t number = load_(processed->data(), processed->size(), text);
    processed->Free();
    if (number == 0) {
      ET_LOG(Error, "Celosia: %s", text);
      return et::Error::DelegateInvalidCompatibility;
    }
    return reinterpret_cast<et::DelegateHandle*>(number);
  }

  et::Error execute(
      et::BackendExecutionContext&,
      et::DelegateHandle* handle,
      et::Span<et::EValue*> arguments) const override {
    std::vector<Operand> operands;
    for (et::EValue* value : arguments) {
      if (!value->isTensor() || !et::tensor_is_default_dim_order(value->toTensor())) {
        ET_LOG(Error, "Celosia: wanted a tensor in the default order of dimensions");
        return et::Error::InvalidArgument;
      }
      auto tensor = value->toTensor();
      operands.push_back({tensor.mutable_data_ptr(), tensor.nbytes()});
    }
    char text[kTextBytes] = "";
    const int64_t number = reinterpret_cast<int64_t>(handle);
    if (run_(number, operands.data(), operands.size(), text) == 0) {
      ET_LOG(Error, "Celosia: %s", text);
      return et::Error::Internal;
    }
    return et::Error::Ok;
  }

  void destroy(et::DelegateHandle* handle) const override {
    close_(reinterpret_cast<int64_t>(handle));
  }

 private:
  Load load_;
  Run run_;
  Close close_;
};

}  // namespace

extern "C" int celosia_register(const char* name, Load load, Run run, Close close) {
  // ExecuTorch keeps pointers to both until the process ends.
  return static_cast<int>(et::register_backend({strdup(name), new Backend(load, run, close)}));
}
