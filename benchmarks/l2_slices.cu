// Which words share a slice of the second-level cache: see l2_slices.py.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

constexpr uint64_t ALLOCATION = 256ull << 20;
constexpr int BLOCKS = 264, ADDITIONS = 400, LAUNCHES = 3;

// Half the blocks add to one word, half to the other. A slice adds to one word after another, so this takes about twice
// as long where one slice has both.
__global__ void add_to_two(unsigned* first, unsigned* second) {
  unsigned* word = blockIdx.x & 1 ? second : first;
  for (int i = 0; i < ADDITIONS; i++) asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(word) : "memory");
}

static void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "l2_slices SEED BASES DISTANCE...\n");
    return 2;
  }
  char* memory;
  cudaEvent_t start, end;
  require(cudaMalloc(&memory, ALLOCATION));
  require(cudaEventCreate(&start));
  require(cudaEventCreate(&end));
  auto microseconds = [&](uint64_t first, uint64_t second) {
    float least = 1e30f;
    for (int i = 0; i < LAUNCHES; i++) {
      float ms;
      require(cudaEventRecord(start));
      add_to_two<<<BLOCKS, 1>>>((unsigned*)(memory + first), (unsigned*)(memory + second));
      require(cudaEventRecord(end));
      require(cudaEventSynchronize(end));
      require(cudaEventElapsedTime(&ms, start, end));
      least = std::min(least, ms);
    }
    return least * 1e3f;
  };
  for (int i = 0; i < 50; i++) microseconds(0, 64);
  std::srand(std::atoi(argv[1]));
  for (int i = 0; i < std::atoi(argv[2]); i++) {
    uint64_t base = std::rand() % (ALLOCATION / 4096 - 256) * 4096 + std::rand() % 128 * 32;
    for (int d = 3; d < argc; d++) std::printf("%s %llu %.2f\n", argv[d], (unsigned long long)base, microseconds(base, base + std::atoll(argv[d])));
  }
}
