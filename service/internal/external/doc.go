// Package external holds tests only: curl, hey, k6 and Chromium send requests over
// loopback to servers behind httplimit, and redis-cli, redis-py and ioredis to weir serve. They need the build tag system, which
// make system sets; a missing program fails its tests.
package external
