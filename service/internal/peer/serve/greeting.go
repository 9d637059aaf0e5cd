package serve

import (
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/weir-go/weir/service/internal/connlimit"
)

// maxGreetings bounds the handshakes in progress at a Handler.
const maxGreetings = 64

// greetings are the handshakes in progress, the oldest first. A handshake takes two round trips, so one that is
// old is idle: a new one replaces it if there are too many. A client that opens connections and sends nothing
// keeps no peer out, also none with the same address.
type greetings struct {
	mu   sync.Mutex // guards list
	list []*greeting
}

// A greeting is a handshake in progress.
type greeting struct {
	conn     net.Conn
	client   *connlimit.Client // nil if it is not known
	replaced bool              // guarded by greetings.mu
}

// add adds a handshake. If there are too many, it ends the oldest one of the client that has most of them.
func (g *greetings) add(conn net.Conn, client *connlimit.Client) *greeting {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.list) >= maxGreetings {
		old := g.oldestLocked()
		old.replaced = true
		_ = old.conn.Close()
		g.removeLocked(old)
	}
	own := &greeting{conn: conn, client: client}
	g.list = append(g.list, own)
	return own
}

// end removes a handshake, and reports whether another has replaced it.
func (g *greetings) end(own *greeting) (replaced bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removeLocked(own)
	return own.replaced
}

// oldestLocked returns the oldest handshake of the client that has most of them.
func (g *greetings) oldestLocked() *greeting {
	counts := map[*connlimit.Client]int{}
	most := g.list[0]
	for _, h := range g.list {
		counts[h.client]++
	}
	for _, h := range g.list {
		if counts[h.client] > counts[most.client] {
			most = h
		}
	}
	return most
}

func (g *greetings) removeLocked(own *greeting) {
	if i := slices.Index(g.list, own); i >= 0 {
		g.list = slices.Delete(g.list, i, i+1)
	}
}

// errReplaced ends a handshake that a newer one replaces.
var errReplaced = errors.New("the handshake has not ended, and there are too many newer ones")
