// Package peer links instances of weir serve: a Client is a decider.Decider whose decisions
// another instance makes, and a Handler serves the Decider of this instance to others.
//
// The link is an HTTP/1.1 connection to the public listener of the other instance, upgraded by
// GET /-/peer to frames in both directions:
//
//	length of the rest (4 bytes, big endian)   number of the request (uvarint)   kind (1 byte)   payload
//
// A connection carries many requests at a time, and answers come in any order. Requests and
// answers that are ready at the same time share one write.
//
//	h, err := peer.NewHandler(peer.HandlerConfig{Decider: srv, Node: node, Secret: secret})
//	mux.Handle(peer.Path, h)
//	...
//	c, err := peer.New(peer.Config{URL: "http://weir-1:8080", Node: node, Secret: secret})
//	err = c.Decide(ctx, &decider.Request{Key: "user:42", N: 1}, &v)
//
// A request is decided by the Decider of the Handler, which must be that of the process alone, so
// that no request is forwarded twice.
//
// # Handshake
//
// Both sides send a hello: the id of the node, its version, the hash of its rules and a nonce. With
// a shared secret, each then proves that it has the secret, by an HMAC over both hellos. The secret
// itself is never sent. Without TLS, the network can still read and change the frames that follow.
//
// # Versions
//
// Instances of different versions understand each other. A hello and a payload may have fields that
// the reader does not know, those of a payload at its end; a reader takes the zero value for missing
// ones. A request of an unknown kind is answered with ErrUnknown, and other frames of unknown kinds
// are ignored. An answer that an older reader would misread is not sent to it: each hello has the
// revision of its side, which is 0 for a version without one.
//
// A change that all this does not cover is another protocol, which a client offers beside the
// present one, before it, in the header Upgrade.
//
// # Failures
//
// A Client pings the other instance. If that is silent for Config.Silence, or the connection breaks,
// all its requests fail with ErrUnavailable, and the Client connects again in the background. Until
// then, requests fail at once. A request that failed may have been decided. The Handler cancels
// the requests that wait on a connection when it ends, so that they leave their queues.
package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// KnowsEpochs is the first revision with epochs of claims, and that of this package. Since 1, instances know weir.Recovering.
const KnowsEpochs = 2

// Path is where the public listener of an instance serves its Handler.
const Path = "/-/peer"

// LeafPath is where the public listener of an instance serves the Handler of its leaves: instances
// that have it as their upstream. Its Decider may ask others.
const LeafPath = "/-/leaf"

// Errors of a Client, besides those of decider.Decider.
var (
	// ErrUnavailable says that the other instance cannot be reached, does not answer, or is
	// shutting down.
	ErrUnavailable = errors.New("the peer is not available")
	// ErrBusy says that there are too many requests: on the link, or at the other instance.
	ErrBusy = errors.New("too many requests to the peer")
	// ErrSecret says that one of the instances has another secret than the other, or none.
	ErrSecret = errors.New("the peer has another secret")
	// ErrUnknown says that the other instance does not know the kind of request: it has an older version.
	ErrUnknown = errors.New("the peer does not know this kind of request")
	// ErrSelf says that the other instance is this one: see HandlerConfig.Others.
	ErrSelf = errors.New("the peer is this instance itself")
	// ErrTooLarge says that a request or its answer is larger than MaxFrame.
	ErrTooLarge = errors.New("the request or its answer is too large for the link")
)

// Info describes an instance.
type Info struct {
	Node     string `json:"node"`               // a random id of the process
	Version  string `json:"version"`            // of weir
	Rules    string `json:"rules"`              // config.Rules.Hash when the connection was made
	Revision int    `json:"revision,omitempty"` // of the package that the instance has: see KnowsEpochs
}

// Config configures a Client.
type Config struct {
	// URL is the address of the public listener of the other instance: http://host:port or
	// https://host:port. A path is ignored.
	URL string
	// Self describes this instance. Self.Rules is ignored if Rules is set.
	Self Info
	// Path is where the other instance serves its Handler. If empty, the constant Path.
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

// Defaults of Config and HandlerConfig.
const (
	DefaultMaxCalls   = 50_000
	DefaultMaxBytes   = 64 << 20
	DefaultSilence    = time.Second
	DefaultMaxWaiting = 20_000
	DefaultMaxConns   = 256
)

// MaxFrame bounds a frame, in bytes.
const MaxFrame = 16 << 20

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
	return checkSecret(c.Secret)
}

// Validate returns an error that names the first invalid field.
func (c HandlerConfig) Validate() error {
	switch {
	case c.Decider == nil:
		return errors.New("peer: Decider = nil: must be given")
	case c.MaxWaiting < 0:
		return fmt.Errorf("peer: MaxWaiting = %d: must be >= 0", c.MaxWaiting)
	case c.MaxConns < 0:
		return fmt.Errorf("peer: MaxConns = %d: must be >= 0", c.MaxConns)
	}
	return checkSecret(c.Secret)
}

func checkSecret(secret []byte) error {
	if n := len(secret); n > 0 && n < minSecret {
		return fmt.Errorf("peer: Secret has %d bytes: must have at least %d, or none", n, minSecret)
	}
	return nil
}

// State is the state of a Client.
type State struct {
	// Up says that requests are sent. A Client that has not connected yet is not up.
	Up bool
	// Leaving says that the other instance has asked to send it no more requests, because it is
	// shutting down. The Client is not up then.
	Leaving bool
	// Peer describes the other instance, as of the last connection; zero if there was none.
	Peer Info
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

// HandlerConfig configures a Handler.
type HandlerConfig struct {
	// Decider decides. At Path, it must not ask a peer. Unless Blocking is set, its Decide, and
	// batches of up to a hundred requests, must not block.
	Decider decider.Decider
	// Blocking has each request decided in a goroutine of its own.
	Blocking bool
	// Self describes this instance. Self.Rules is ignored if Rules is set.
	Self Info
	// Others refuses Clients with the Node of Self, with ErrSelf.
	Others bool
	Secret []byte // see Config.Secret
	// Allow, if not nil, returns an error for a request that may not open a connection. It is
	// answered with 403 and the text of the error.
	Allow func(*http.Request) error
	// Rules returns the rules in force, for their hash. If nil, the hash is Self.Rules.
	Rules func() *config.Rules
	// Now is the clock of the instants in verdicts: see server.Server.Now. If nil, these are
	// taken for the present.
	Now func() time.Duration
	// Calls are further requests, by name: see Client.Call. They are called concurrently. Their
	// context ends with the connection.
	Calls map[string]func(ctx context.Context, from Info, body []byte) ([]byte, error)

	// MaxWaiting bounds the requests that wait, on all connections. Further ones are denied with
	// weir.QueueFull. If zero, DefaultMaxWaiting.
	MaxWaiting int
	// MaxConns bounds the connections. Further ones get 503. If zero, DefaultMaxConns.
	MaxConns int
	// OnRefused, if not nil, is called with the reason when a handshake fails.
	OnRefused func(from net.Addr, err error)
}

// HandlerStats are the counts of a Handler.
type HandlerStats struct {
	Conns    int    // at the moment
	Waiting  int    // requests that wait, at the moment
	Requests uint64 // of all kinds
	Busy     uint64 // refused, because too many wait or work
	Refused  uint64 // handshakes, because of the secret or the version
	Slow     uint64 // connections that were closed because the peer read too slowly, or was silent
}

var _ decider.Decider = (*Client)(nil)
