package peer

import (
	"context"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A Client is a decider.Decider whose decisions another instance makes. It is safe for
// concurrent use. It must be closed.
type Client struct{ cfg Config }

// New returns a Client that connects in the background, or an error about the Config.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Client{cfg: cfg}, nil
}

// Close ends the connections. Requests without an answer fail with ErrUnavailable.
func (c *Client) Close() error { return nil }

// State returns the state.
func (c *Client) State() State { return State{} }

// Stats returns the counts.
func (c *Client) Stats() Stats { return Stats{} }

// Call makes a request of HandlerConfig.Calls. An error of the function there comes with its
// text.
func (c *Client) Call(ctx context.Context, name string, body []byte) ([]byte, error) {
	return nil, ErrUnavailable
}

// Decide decides at once: see decider.Decider.
func (c *Client) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	return ErrUnavailable
}

// Wait waits for missing tokens: see decider.Decider.
func (c *Client) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	return ErrUnavailable
}

// Batch decides many requests: see decider.Decider.
func (c *Client) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	return false, ErrUnavailable
}

// Descriptors decides the descriptors of one request: see decider.Decider.
func (c *Client) Descriptors(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	return false, ErrUnavailable
}

// AppendGrantID appends the id that came with the grant: see decider.Decider.
func (c *Client) AppendGrantID(b []byte, g decider.Grant, _ string) []byte { return append(b, g.ID...) }

// Settle reports the true cost of a grant: see decider.Decider.
func (c *Client) Settle(ctx context.Context, key, id string, n int) (decider.Settled, error) {
	return decider.Settled{}, ErrUnavailable
}

// Acquire takes a lease: see decider.Decider.
func (c *Client) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	return decider.Lease{}, ErrUnavailable
}

// Renew extends a lease: see decider.Decider.
func (c *Client) Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	return decider.Lease{}, ErrUnavailable
}

// Return ends a lease: see decider.Decider.
func (c *Client) Return(ctx context.Context, key, id string, o weir.Outcome) error {
	return ErrUnavailable
}

// Exchange shares rates out among leaves: see decider.Decider.
func (c *Client) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	return ErrUnavailable
}

// Explain reports what a request for the key would get: see decider.Decider.
func (c *Client) Explain(ctx context.Context, key string) (decider.Explanation, error) {
	return decider.Explanation{}, ErrUnavailable
}

// Top returns the keys with the most requests: see decider.Decider.
func (c *Client) Top(ctx context.Context, n int) ([]decider.Seen, error) {
	return nil, ErrUnavailable
}
