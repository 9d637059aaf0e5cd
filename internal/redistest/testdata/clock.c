// The library sets the clock of a server: gettimeofday tells the time plus the seconds that
// are in the file REDISTEST_CLOCK. It allocates no memory, because allocators ask for the time.
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
	char seconds[16] = "";
	int file = open(getenv("REDISTEST_CLOCK"), O_RDONLY);
	if (file >= 0) {
		if (read(file, seconds, sizeof seconds - 1) < 0)
			seconds[0] = 0;
		close(file);
	}
	int failed = syscall(SYS_gettimeofday, tv, tz);
	tv->tv_sec += atoi(seconds);
	return failed;
}
