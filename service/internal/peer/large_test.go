package peer_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Large frames go both ways, and too large ones are errors.
func TestLargeFrames(t *testing.T) {
	bubble(t, func(t *testing.T) {
		echo := func(_ context.Context, from wire.Info, body []byte) ([]byte, error) {
			if string(body) == "fail" {
				return nil, errors.New("it failed for " + from.Node)
			}
			if len(body) == 8 {
				return make([]byte, wire.MaxFrame), nil
			}
			return body, nil
		}
		site := newSite(t, serve.Config{Calls: map[string]func(context.Context, wire.Info, []byte) ([]byte, error){"echo": echo}})
		c := site.dial(peer.Config{Self: wire.Info{Node: "me"}})
		const reads = 32 << 10 // the buffer of a connection
		for _, size := range []int{0, 1, reads - 20, reads, 5*reads + 1, 3 << 20} {
			body := bytes.Repeat([]byte("ab"), size/2+1)[:size]
			if got, err := c.Call(t.Context(), "echo", body); err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d: %d bytes, %v", size, len(got), err)
			}
		}
		if _, err := c.Call(t.Context(), "echo", []byte("fail")); err == nil || err.Error() != "it failed for me" {
			t.Error(err)
		}
		if _, err := c.Call(t.Context(), "else", nil); err != wire.ErrUnknown {
			t.Error(err)
		}
		if _, err := c.Call(t.Context(), "echo", make([]byte, wire.MaxFrame)); err != wire.ErrTooLarge {
			t.Error(err)
		}
		if _, err := c.Call(t.Context(), "echo", make([]byte, 8)); err != wire.ErrTooLarge {
			t.Error(err)
		}
		long := make([]decider.Request, 300)
		for i := range long {
			long[i] = decider.Request{Key: strings.Repeat("k", 64<<10), N: 1}
		}
		if _, err := c.Batch(t.Context(), long, false, make([]decider.Verdict, len(long))); err != wire.ErrTooLarge {
			t.Error(err)
		}
		if ok, err := c.Batch(t.Context(), long[:200], false, make([]decider.Verdict, len(long))); err != nil || ok {
			t.Error(ok, err)
		}
		if st := c.Stats(); st.Connects != 1 || st.Inflight != 0 {
			t.Errorf("%+v", st)
		}
	})
}
