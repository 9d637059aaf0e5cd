// Package rlqsapi is Envoy's rate limit quota service (RLQS,
// envoy.service.rate_limit_quota.v3): proxies report how much they use, and get
// assignments by which they decide by themselves.
//
// The id of an Envoy bucket, with the domain of its filter, is a key: its entries, in
// the order of their names, are the entries of a descriptor (package descriptor). A
// stream is a leaf of decider.Decider.Assign for each bucket that it reports.
//
//	api := rlqsapi.New(srv, rlqsapi.Config{Identify: guard.Identify})
//	api.Register(grpcServer)
//
// # What Envoy leaves open
//
// RLQS names no proxy and acknowledges nothing. A proxy that connects again from the same
// address takes over what its ended stream had; a report acknowledges the answer before it.
// A proxy starts each new token bucket with all its tokens, so a changed assignment can add
// its burst once. Times in Envoy's answers are whole seconds.
package rlqsapi

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
)

// Defaults of Config.
const (
	DefaultMaxKey     = 1 << 10
	DefaultMaxBuckets = 10_000
)

// Config configures an API.
type Config struct {
	// MaxKey bounds a key, in bytes. If zero, DefaultMaxKey.
	MaxKey int
	// MaxBuckets bounds the buckets of a stream. Others get no answer. If zero,
	// DefaultMaxBuckets.
	MaxBuckets int
	// FirstReport bounds the time until the first report of a stream. A stream without one ends
	// with DEADLINE_EXCEEDED. If zero, it is not bounded.
	FirstReport time.Duration
	// Identify returns the session of a client with a secret. Streams of clients that are not
	// known end with UNAUTHENTICATED, and buckets that a token does not allow get no answer.
	// If nil, all are allowed.
	Identify func(secret string) *token.Session
}

// An API is the gRPC service. It is safe for concurrent use.
type API struct {
	rlqs.UnimplementedRateLimitQuotaServiceServer
	cfg     Config
	decider decider.Decider
	closed  chan struct{}
	close   func()

	mu     sync.Mutex         // guards what follows
	hosts  map[string][]*leaf // by address
	leaves uint64             // that there were
	forgot time.Time          // when forget last ran

	stats struct{ streams, reports, refused atomic.Int64 }
}

// New returns an API.
func New(d decider.Decider, cfg Config) *API {
	if cfg.MaxKey == 0 {
		cfg.MaxKey = DefaultMaxKey
	}
	if cfg.MaxBuckets == 0 {
		cfg.MaxBuckets = DefaultMaxBuckets
	}
	a := &API{cfg: cfg, decider: d, hosts: map[string][]*leaf{}, closed: make(chan struct{})}
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
	Reports int64 // of buckets
	Refused int64 // of them: without an answer, because of a bound, a key or a token
}

// Stats returns the state.
func (a *API) Stats() Stats {
	return Stats{a.stats.streams.Load(), a.stats.reports.Load(), a.stats.refused.Load()}
}

// StreamRateLimitQuotas serves one proxy.
func (a *API) StreamRateLimitQuotas(stream rlqs.RateLimitQuotaService_StreamRateLimitQuotasServer) error {
	a.stats.streams.Add(1)
	defer a.stats.streams.Add(-1)
	session, err := a.identify(stream.Context())
	if err != nil {
		return err
	}
	l := a.enter(stream.Context())
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
	var late <-chan time.Time
	if a.cfg.FirstReport > 0 {
		late = time.After(a.cfg.FirstReport)
	}
	for {
		select {
		case <-late:
			return errLate
		case <-a.closed:
			return status.Error(codes.Unavailable, "the server ends")
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case reports := <-received:
			late = nil
			actions, err := a.answer(stream.Context(), session, l, reports)
			if err != nil {
				return err
			}
			if len(actions) == 0 {
				continue
			}
			if err := stream.Send(&rlqs.RateLimitQuotaResponse{BucketAction: actions}); err != nil {
				return err
			}
		}
	}
}

// identify returns the session of a stream; nil if none is needed.
func (a *API) identify(ctx context.Context) (*token.Session, error) {
	if a.cfg.Identify == nil {
		return nil, nil
	}
	secret, _ := token.Bearer(strings.Join(metadata.ValueFromIncomingContext(ctx, "authorization"), ","))
	s := a.cfg.Identify(secret)
	if s.Count(); !s.Known() {
		return nil, errUnknown
	}
	return s, nil
}

// errLate ends a stream whose first report does not come.
var errLate = status.Error(codes.DeadlineExceeded, "no report has come")

// errUnknown ends the stream of a client whose token is not known, or not any more.
var errUnknown = status.Error(codes.Unauthenticated, token.ErrUnknown.Error())

// A leaf is a proxy, as far as its address tells it from others.
type leaf struct {
	name    string
	taken   bool               // by a stream
	ended   time.Time          // the last stream, if it is not taken
	ttl     time.Duration      // of its last assignment
	domain  string             // of the stream
	buckets map[string]*bucket // by key
}

// enter returns the leaf of a stream: one of its address whose stream has ended, or a new one.
func (a *API) enter(ctx context.Context) *leaf {
	host := ""
	if p, ok := peer.FromContext(ctx); ok {
		host = p.Addr.String()
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget()
	for _, l := range a.hosts[host] {
		if !l.taken {
			l.taken, l.domain = true, ""
			return l
		}
	}
	a.leaves++
	l := &leaf{name: host + "#" + strconv.FormatUint(a.leaves, 10), taken: true, buckets: map[string]*bucket{}}
	a.hosts[host] = append(a.hosts[host], l)
	return l
}

func (a *API) leave(l *leaf) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l.taken, l.ended = false, time.Now()
}

// forget removes the leaves whose assignments have ended.
func (a *API) forget() {
	now := time.Now()
	if now.Sub(a.forgot) < time.Second {
		return
	}
	a.forgot = now
	for host, leaves := range a.hosts {
		leaves = slices.DeleteFunc(leaves, func(l *leaf) bool { return !l.taken && now.Sub(l.ended) > l.ttl })
		if a.hosts[host] = leaves; len(leaves) == 0 {
			delete(a.hosts, host)
		}
	}
}
