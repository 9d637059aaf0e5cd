package peer_test

import (
	"errors"
	"net"
	"testing"

	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/peer/wire"
)

// A Handler for others refuses the Clients of its own process. Others it accepts.
func TestOthers(t *testing.T) {
	for _, row := range []struct {
		node   string
		others bool
		up     bool
	}{{"own", true, false}, {"own", false, true}, {"another", true, true}} {
		bubble(t, func(t *testing.T) {
			var refused error
			s := newSite(t, serve.Config{
				Self: wire.Info{Node: "own"}, Others: row.others,
				OnRefused: func(_ net.Addr, err error) { refused = err },
			})
			c := s.dial(peer.Config{Self: wire.Info{Node: row.node}})
			if st := c.State(); st.Up != row.up || errors.Is(st.Err, wire.ErrSelf) == row.up || errors.Is(refused, wire.ErrSelf) == row.up {
				t.Errorf("%+v: %+v; refused: %v", row, st, refused)
			}
		})
	}
}
