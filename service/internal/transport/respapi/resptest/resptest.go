// Package resptest serves clients of Redis in tests.
package resptest

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/eventloop"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/respapi"
)

// Secret is the secret of a client that Serve knows.
const Secret = "the secret of a client"

// Serve serves clients of Redis without rules until the test ends. With tokens set, they need
// Secret.
func Serve(t testing.TB, tokens bool) (addr string) {
	t.Helper()
	s, err := server.New(server.Config{OwnQuotas: true})
	if err != nil {
		t.Fatal(err)
	}
	var cfg respapi.Config
	if tokens {
		set, err := token.Parse("tokens.yaml", []byte("tokens: [{name: client, token: "+Secret+"}]"))
		if err != nil {
			t.Fatal(err)
		}
		var guard token.Guard
		guard.Use(set)
		cfg.Identify = guard.Identify
	}
	api, err := respapi.New(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if ln, err = eventloop.Listen(ln); err != nil {
		t.Fatal(err)
	}
	go func() { _ = api.Serve(ln) }()
	t.Cleanup(func() { _ = ln.Close() })
	return ln.Addr().String()
}

// replies has the replies that Check compares with.
var replies = [][]int64{{0, 16, 15, -1, 2}, {0, 5, 4, -1, 60}, {0, 5, 3, -1, 120}, {0, 5, 2, -1, 180}, {0, 5, 1, -1, 240}, {0, 5, 0, -1, 300},
	{1, 5, 0, 60, 300}, {1, 5, 0, 60, 300}}

// Check checks the replies that a client has got to CL.THROTTLE user123 15 30 60, and to seven times
// CL.THROTTLE piped 4 1 60. It has sent the first one after began.
func Check(t testing.TB, client string, began time.Time, got [][]int64) {
	t.Helper()
	passed := int64(time.Since(began) / time.Second)
	equal := func(got, want []int64) bool {
		ok := len(got) == 5 && slices.Equal(got[:3], want[:3])
		for i := 3; ok && i < 5; i++ { // seconds that are left; -1: there are none
			least := max(want[i]-passed, min(want[i], 0))
			ok = got[i] >= least && got[i] <= want[i]
		}
		return ok
	}
	if !slices.EqualFunc(got, replies, equal) {
		t.Errorf("%s: %v, want %v, or less by up to %d seconds", client, got, replies, passed)
	}
}
