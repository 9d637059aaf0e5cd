//go:build system

package redislimit_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir/internal/redistest"
)

// client returns a client of a server, which is closed when the test ends.
func client(t testing.TB, s *redistest.Server) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Addr})
	t.Cleanup(func() { _ = c.Close() })
	return c
}
