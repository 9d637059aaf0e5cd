package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Config configures a Handler.
type Config struct {
	// Decider decides. At Path, it must not ask a peer. Unless Blocking is set, its Decide, and
	// batches of up to a hundred requests, must not block.
	Decider decider.Decider
	// Blocking has each request decided in its own goroutine.
	Blocking bool
	// Self describes this instance. Self.Rules is ignored if Rules is set.
	Self wire.Info
	// Others refuses Clients with the Node of Self, with wire.ErrSelf.
	Others bool
	Secret []byte // see peer.Config.Secret
	// Allow, if not nil, returns an error for a request that may not open a connection. It is
	// answered with 403 and the text of the error.
	Allow func(*http.Request) error
	// Rules returns the rules in force, for their hash. If nil, the hash is Self.Rules.
	Rules func() *config.Rules
	// Now is the clock of the instants in verdicts: see server.Server.Now. If nil, these are
	// taken for the present.
	Now func() time.Duration
	// Calls are further requests, by name: see peer.Client.Call. They are called concurrently. Their
	// context ends with the connection.
	Calls map[string]func(ctx context.Context, from wire.Info, body []byte) ([]byte, error)

	// MaxWaiting bounds the requests that wait, on all connections. Further ones are denied with
	// weir.QueueFull. If zero, DefaultMaxWaiting.
	MaxWaiting int
	// MaxConns bounds the connections. Further ones get 503. If zero, DefaultMaxConns.
	MaxConns int
	// OnRefused, if not nil, is called with the reason when a handshake fails.
	OnRefused func(from net.Addr, err error)
}

// Defaults of Config.
const (
	DefaultMaxWaiting = 20_000
	DefaultMaxConns   = 256
)

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	switch {
	case c.Decider == nil:
		return errors.New("peer: Decider = nil: must be given")
	case c.MaxWaiting < 0:
		return fmt.Errorf("peer: MaxWaiting = %d: must be >= 0", c.MaxWaiting)
	case c.MaxConns < 0:
		return fmt.Errorf("peer: MaxConns = %d: must be >= 0", c.MaxConns)
	}
	return wire.CheckSecret(c.Secret)
}

// Stats are the counts of a Handler.
type Stats struct {
	Conns    int    // at the moment
	Waiting  int    // requests that wait, at the moment
	Requests uint64 // of all kinds
	Busy     uint64 // refused, because too many wait or work
	Refused  uint64 // handshakes, because of the secret or the version
	Slow     uint64 // connections that were closed because the peer read too slowly, or was silent
}
