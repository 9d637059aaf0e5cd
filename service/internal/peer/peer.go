// Package peer asks other instances of weir serve: a Client is a decider.Decider by which another
// instance decides. Package peer/serve serves the requests, and package peer/wire has the protocol.
//
//	c, err := peer.New(peer.Config{URL: "http://weir-1:8080", Self: wire.Info{Node: node}, Secret: secret})
//	err = c.Decide(ctx, &decider.Request{Key: "user:42", N: 1}, &v)
//
// A Client pings the other instance. If that is silent for Config.Silence, or the connection breaks,
// all its requests fail with wire.ErrUnavailable, and the Client connects again in the background.
// Until then, requests fail at once. A request that failed may have been decided.
package peer

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Config configures a Client.
type Config struct {
	// URL is the address of the public listener of the other instance: http://host:port or
	// https://host:port. A path is ignored.
	URL string
	// Self describes this instance. Self.Rules is ignored if Rules is set.
	Self wire.Info
	// Path is where the other instance serves its Handler. If empty, wire.Path.
	Path string
	// Token, if not empty, is sent as a bearer token.
	Token string
	// Secret proves to the other instance that this is a member of its fleet, and the reverse: 16
	// bytes or more. If empty, the other must have none.
	Secret []byte
	// TLS is for https. If nil, the zero tls.Config.
	TLS *tls.Config
	// Rules returns the rules in force, for their hash. If nil, the hash is Self.Rules.
	Rules func() *config.Rules
	// Now is the clock of the instants in verdicts: see server.Server.Now. If nil, the time since
	// New.
	Now func() time.Duration

	// Conns is the number of connections. If zero, 1.
	Conns int
	// MaxCalls bounds the requests without an answer, and MaxBytes their size, on each connection.
	// Further ones fail with ErrBusy. If zero, DefaultMaxCalls and DefaultMaxBytes.
	MaxCalls, MaxBytes int
	// Silence is for how long the other instance may send nothing, while it gets a ping four times in
	// that time. Five times Silence bounds the time to connect. If zero, DefaultSilence.
	Silence time.Duration
	// OnState, if not nil, is called after each change of the State, one call at a time.
	OnState func(State)
	// Dial, if not nil, makes the connections.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Defaults of Config.
const (
	DefaultMaxCalls = 50_000
	DefaultMaxBytes = 64 << 20
	DefaultSilence  = time.Second
)

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return fmt.Errorf("peer: URL = %q: %w", c.URL, err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("peer: URL = %q: must be http://host:port or https://host:port", c.URL)
	}
	for _, f := range []struct {
		name  string
		value int64
	}{{"Conns", int64(c.Conns)}, {"MaxCalls", int64(c.MaxCalls)}, {"MaxBytes", int64(c.MaxBytes)}, {"Silence", int64(c.Silence)}} {
		if f.value < 0 {
			return fmt.Errorf("peer: %s = %d: must be >= 0", f.name, f.value)
		}
	}
	return wire.CheckSecret(c.Secret)
}

// State is the state of a Client.
type State struct {
	// Up says that requests are sent. A Client that has not connected yet is not up.
	Up bool
	// Leaving says that the other instance has asked to send it no more requests, because it is
	// shutting down. The Client is not up then.
	Leaving bool
	// Peer describes the other instance, as of the last connection; zero if there was none.
	Peer wire.Info
	// Err says why the Client is not up; nil if it is, or has not tried yet.
	Err error
}

// Stats are the counts of a Client.
type Stats struct {
	Requests uint64 // sent, of all kinds
	Failures uint64 // with ErrUnavailable or ErrBusy, sent or not
	Inflight int    // requests without an answer, at the moment
	Connects uint64 // connections that were made
	Refused  uint64 // handshakes that the other instance or this one refused, because of the secret or the version
	// Latency is the smoothed time from a ping to its answer; 0 before the first.
	Latency time.Duration
	State   State
}

var _ decider.Decider = (*Client)(nil)
