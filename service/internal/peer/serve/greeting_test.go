package serve

import (
	"net"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/connlimit"
)

// A handshake that is too many replaces the oldest one of the client that has most of them.
func TestGreetings(t *testing.T) {
	var g greetings
	var many, one connlimit.Client
	add := func(c *connlimit.Client) *greeting {
		conn, _ := net.Pipe()
		return g.add(conn, c)
	}
	other := add(&one)
	first, second := add(&many), add(&many)
	for range maxGreetings {
		add(&many)
	}
	late := add(&one)
	if len(g.list) != maxGreetings {
		t.Errorf("%d handshakes", len(g.list))
	}
	for name, row := range map[string]struct {
		*greeting
		replaced bool
	}{"the oldest of all": {other, false}, "the first of many": {first, true}, "the second of many": {second, true}, "the last": {late, false}} {
		if err := row.conn.SetDeadline(time.Time{}); (err != nil) != row.replaced || g.end(row.greeting) != row.replaced {
			t.Errorf("%s: %v: want it closed: %v", name, err, row.replaced)
		}
	}
	if len(g.list) != maxGreetings-2 {
		t.Errorf("%d handshakes at the end", len(g.list))
	}
}
