// Registers the tl_gridsync.* keys in TVM's PassContext, so that TVM itself refuses a wrong key or value.
//
// PassContext::RegisterConfigOption is the only way in, and C++ only. Its address comes from the caller,
// who looks the symbol up in the TVM library that TileLang loaded: the TVM headers inside the TileLang
// wheel do not compile beside those of apache-tvm-ffi, and linking against that library would tie one
// build to one TileLang.
#include <tvm/ffi/any.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include <cstdint>
#include <functional>
#include <string>

namespace {

using tvm::ffi::Any;
using tvm::ffi::String;

// PassContext::RegisterConfigOption(const char*, ffi::String, std::function<ffi::Any(ffi::Any)>)
using RegisterConfigOption = void (*)(const char*, String, std::function<Any(Any)>);

template <typename T>
std::function<Any(Any)> Typed(std::string key, const char* type_name) {
  return [key, type_name](Any value) -> Any {
    if (auto typed = value.as<T>()) return *typed;
    TVM_FFI_THROW(TypeError) << "pass config " << key << " takes a " << type_name << ", got a " << value.GetTypeKey();
    TVM_FFI_UNREACHABLE();
  };
}

void RegisterPassConfig(int64_t register_config_option, String key, String type_name) {
  auto register_option = reinterpret_cast<RegisterConfigOption>(register_config_option);
  if (type_name == "bool") {
    register_option(key.c_str(), type_name, Typed<bool>(key, "bool"));
  } else if (type_name == "int") {
    register_option(key.c_str(), type_name, Typed<int64_t>(key, "int"));
  } else if (type_name == "str") {
    register_option(key.c_str(), type_name, Typed<String>(key, "str"));
  } else {
    TVM_FFI_THROW(ValueError) << "no pass config type " << type_name << " for " << key;
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(register_pass_config, RegisterPassConfig);
