// A double of CUDA's run-time compiler: what it "compiles" is the source text itself, which the driver's double takes
// as an image. It refuses a text without a kernel, and one whose braces and parentheses do not close.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <string_view>

namespace {

struct Program {
  std::string source;
  std::string log;
  bool compiled = false;
};

constexpr int kSuccess = 0;
constexpr int kInvalidInput = 3;
constexpr int kInvalidProgram = 4;
constexpr int kCompilation = 6;

constexpr int kArchitectures[] = {80, 86, 89, 90};

bool is_closed(std::string_view text) {
  std::string open;
  for (const char c : text) {
    if (c == '(' || c == '{') open.push_back(c == '(' ? ')' : '}');
    if (c != ')' && c != '}') continue;
    if (open.empty() || open.back() != c) return false;
    open.pop_back();
  }
  return open.empty();
}

int give(const Program* program, const std::string& text, char* out) {
  if (program == nullptr || out == nullptr) return kInvalidInput;
  std::memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

}  // namespace

#define VMEM_NVRTC_EXPORT extern "C" __attribute__((visibility("default"))) int

VMEM_NVRTC_EXPORT nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return kSuccess;
}

VMEM_NVRTC_EXPORT nvrtcCreateProgram(Program** program, const char* source, const char*, int, const char* const*,
                                     const char* const*) {
  if (program == nullptr || source == nullptr) return kInvalidInput;
  *program = new Program{source, "", false};
  return kSuccess;
}

VMEM_NVRTC_EXPORT nvrtcDestroyProgram(Program** program) {
  if (program == nullptr || *program == nullptr) return kInvalidProgram;
  delete *program;
  *program = nullptr;
  return kSuccess;
}

VMEM_NVRTC_EXPORT nvrtcCompileProgram(Program* program, int count, const char* const* options) {
  if (program == nullptr || (count > 0 && options == nullptr)) return kInvalidProgram;
  if (program->source.find("__global__") == std::string::npos) {
    program->log = "error: the text has no kernel";
  } else if (!is_closed(program->source)) {
    program->log = "error: a brace or a parenthesis is not closed";
  }
  program->compiled = program->log.empty();
  return program->compiled ? kSuccess : kCompilation;
}

VMEM_NVRTC_EXPORT nvrtcGetProgramLogSize(Program* program, std::size_t* bytes) {
  if (program == nullptr || bytes == nullptr) return kInvalidInput;
  *bytes = program->log.size() + 1;
  return kSuccess;
}

VMEM_NVRTC_EXPORT nvrtcGetProgramLog(Program* program, char* log) {
  return program == nullptr ? kInvalidProgram : give(program, program->log, log);
}

VMEM_NVRTC_EXPORT nvrtcGetCUBINSize(Program* program, std::size_t* bytes) {
  if (program == nullptr || bytes == nullptr) return kInvalidInput;
  *bytes = program->compiled ? program->source.size() + 1 : 0;
  return kSuccess;
}

VMEM_NVRTC_EXPORT nvrtcGetCUBIN(Program* program, char* image) {
  return program == nullptr || !program->compiled ? kInvalidProgram : give(program, program->source, image);
}

VMEM_NVRTC_EXPORT nvrtcGetPTXSize(Program* program, std::size_t* bytes) { return nvrtcGetCUBINSize(program, bytes); }

VMEM_NVRTC_EXPORT nvrtcGetPTX(Program* program, char* image) { return nvrtcGetCUBIN(program, image); }

VMEM_NVRTC_EXPORT nvrtcGetNumSupportedArchs(int* count) {
  if (count == nullptr) return kInvalidInput;
  *count = static_cast<int>(std::size(kArchitectures));
  return kSuccess;
}

VMEM_NVRTC_EXPORT nvrtcGetSupportedArchs(int* architectures) {
  if (architectures == nullptr) return kInvalidInput;
  std::copy(std::begin(kArchitectures), std::end(kArchitectures), architectures);
  return kSuccess;
}
