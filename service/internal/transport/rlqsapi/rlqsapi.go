// Package rlqsapi is Envoy's rate limit quota service (RLQS,
// envoy.service.rate_limit_quota.v3): proxies report how much they use, and get
// assignments by which they decide by themselves.
//
// The id of an Envoy bucket, with the domain of its filter, is a key: its entries, in
// the order of their names, are the entries of a descriptor (package descriptor). A
// stream is a leaf of decider.Decider.Exchange for each bucket that it reports.
//
//	api := rlqsapi.New(srv, rlqsapi.Config{Identify: guard.Identify})
//	api.Register(grpcServer)
//
// # What Envoy leaves open
//
// RLQS names no proxy and acknowledges nothing. A proxy that connects again from the same
// address takes over what its ended stream had, also at a server that has been started
// since, or at another member of a fleet; a report acknowledges the answer before it.
// A proxy starts each new token bucket with all its tokens, so a changed assignment can add
// its burst once. Times in Envoy's answers are whole seconds.
//
// # The first report of a stream
//
// A proxy reports what it has used of an assignment, but not the assignment. So the first report of a bucket that was used
// before the stream began is not answered, as long as the proxy may have an assignment that its time to live has not ended: it goes
// on with that until its next report. By then the server has heard all proxies.
//
// # Assignments without a report
//
// Envoy reports every 5 s. When the share of a proxy has changed because of others, the proxy
// gets its new assignment within a second, without a report. What it had stays taken until its
// next report, because nothing else shows that it has got the answer.
package rlqsapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
)

// Defaults of Config.
const (
	DefaultMaxKey     = 1 << 10
	DefaultMaxBuckets = 100_000
)

// Config configures an API.
type Config struct {
	// MaxKey bounds a key, in bytes. If zero, DefaultMaxKey.
	MaxKey int
	// MaxBuckets bounds the buckets of all streams; those of one address have at most half of
	// them. Reports of others get no answer. If zero, DefaultMaxBuckets.
	MaxBuckets int
	// Identify returns the session of the client of a stream, or the error that ends the
	// stream. Buckets that its token does not allow get no answer. If Identify or the session
	// is nil, all are allowed.
	Identify func(context.Context) (*token.Session, error)
}

// An API is the gRPC service. It is safe for concurrent use.
type API struct {
	rlqs.UnimplementedRateLimitQuotaServiceServer
	cfg     Config
	decider decider.Decider
	closed  chan struct{}
	close   func()

	mu      sync.Mutex       // guards what follows
	hosts   map[string]*host // by address
	leaves  uint64           // that there were
	id      string           // in the names of leaves: no other API has given these names
	buckets int              // of all hosts
	cleaned time.Time        // when clean last went through the buckets

	stats struct{ streams, reports, refused atomic.Int64 }
}

// New returns an API.
func New(d decider.Decider, cfg Config) *API {
	cfg.MaxKey, cfg.MaxBuckets = cmp.Or(cfg.MaxKey, DefaultMaxKey), cmp.Or(cfg.MaxBuckets, DefaultMaxBuckets)
	a := &API{cfg: cfg, decider: d, closed: make(chan struct{}), hosts: map[string]*host{}, id: strconv.FormatUint(rand.Uint64(), 36)}
	a.close = sync.OnceFunc(func() { close(a.closed) })
	return a
}

// Register adds the service to a gRPC server.
func (a *API) Register(s grpc.ServiceRegistrar) { rlqs.RegisterRateLimitQuotaServiceServer(s, a) }

// Close ends all streams. Their proxies keep what they have until its time to live is over.
func (a *API) Close() { a.close() }

// Stats is the state of an API, and counts since New.
type Stats struct {
	Streams int64 // open now
	Buckets int64 // with an assignment, of proxies at all addresses
	Reports int64 // of buckets
	Refused int64 // of them: without an answer, because of a bound, a key or a token
}

// Stats returns the state.
func (a *API) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clean(time.Now())
	return Stats{a.stats.streams.Load(), int64(a.buckets), a.stats.reports.Load(), a.stats.refused.Load()}
}

// StreamRateLimitQuotas serves one proxy.
func (a *API) StreamRateLimitQuotas(stream rlqs.RateLimitQuotaService_StreamRateLimitQuotasServer) error {
	a.stats.streams.Add(1)
	defer a.stats.streams.Add(-1)
	session, err := a.identify(stream.Context())
	if err != nil {
		return err
	}
	tenant := ""
	if session != nil {
		tenant = session.Tenant(token.Decide)
	}
	l := a.enter(stream.Context(), tenant)
	defer a.leave(l)
	received, failed := make(chan *rlqs.RateLimitQuotaUsageReports), make(chan error, 1)
	go func() { // ends with the stream, which ends when this method returns
		for {
			reports, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case received <- reports:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	look := time.NewTimer(seldom)
	defer look.Stop()
	for {
		var actions []*rlqs.RateLimitQuotaResponse_BucketAction
		select {
		case <-a.closed:
			return status.Error(codes.Unavailable, "the server ends")
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case reports := <-received:
			if actions, err = a.answer(stream.Context(), session, l, reports); err != nil {
				return err
			}
		case <-look.C:
			if session != nil && !session.Known() {
				return errUnknown
			}
			actions = a.changes(stream.Context(), l)
			look.Reset(l.look)
		}
		if len(actions) == 0 {
			continue
		}
		if err := stream.Send(&rlqs.RateLimitQuotaResponse{BucketAction: actions}); err != nil {
			return err
		}
	}
}

// identify returns the session of a stream; nil if none is needed.
func (a *API) identify(ctx context.Context) (*token.Session, error) {
	if a.cfg.Identify == nil {
		return nil, nil
	}
	return a.cfg.Identify(ctx)
}

// errUnknown ends the stream of a client with an unknown or withdrawn token.
var errUnknown = status.Error(codes.Unauthenticated, token.ErrUnknown.Error())
