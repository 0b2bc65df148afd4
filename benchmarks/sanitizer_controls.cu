// One fault for each tool of compute-sanitizer, named by the program's argument: what a tool that sees must report.
#include <cstring>

__global__ void write_past_the_end(int *data) { data[1 << 20] = 1; }

__global__ void race_in_shared_memory(int *data)
{
    __shared__ int seen[64];
    seen[threadIdx.x] = threadIdx.x;
    data[threadIdx.x] = seen[63 - threadIdx.x];
}

__global__ void half_a_block_at_a_barrier(int *data)
{
    if (threadIdx.x < 48)
        __syncthreads();
    data[threadIdx.x] = 1;
}

int main(int, char **argument)
{
    int *data;
    cudaMalloc(&data, 64 * sizeof(int));
    if (!strcmp(argument[1], "memcheck"))
        write_past_the_end<<<1, 1>>>(data);
    if (!strcmp(argument[1], "racecheck"))
        race_in_shared_memory<<<1, 64>>>(data);
    if (!strcmp(argument[1], "synccheck"))
        half_a_block_at_a_barrier<<<1, 64>>>(data);
    cudaDeviceSynchronize();
    return 0;
}
