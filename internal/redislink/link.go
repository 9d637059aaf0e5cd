// Package redislink sends the scripts of package redisscript to Redis or Valkey: in pipelines,
// within a budget of time for each call, and behind a circuit breaker, so that a server that is
// away delays no caller.
package redislink

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/waitq"
)

const (
	// MaxBatch bounds the calls in one pipeline.
	MaxBatch = 1000
	parting  = time.Second / 2 // see Close
	maxStuck = 8               // pipelines of a lane that have taken longer than the timeout, and have not ended
	// clusterLanes is the number of lanes to a Cluster. A lane has the keys of some adjacent
	// slots, which most often are at one master, so that a master that is away delays no keys
	// of the others.
	clusterLanes = 16
)

// Defaults of Config.
const (
	DefaultTimeout = 50 * time.Millisecond
	DefaultQueue   = 10_000
)

// ErrAway is the error of a call without an answer in time; the caller decides itself.
var ErrAway = errors.New("redislink: no answer in time")

// ErrClosed is the error of calls after Close.
var ErrClosed = weir.Reject(weir.Closed, 0)

// Config configures a Link.
type Config struct {
	// Send sends calls in one pipeline and returns their answers, in order: see Send. It must
	// return when ctx ends.
	Send func(ctx context.Context, calls []*Call, source bool) []Answer
	// Reload, if not nil, is called after a pipeline that failed, because a pipeline does
	// not find out that another master of a Cluster has the slots.
	Reload func(ctx context.Context)
	// Cluster is set for a Cluster: its slots have lanes of their own.
	Cluster bool
	// Timeout bounds a call. If zero, DefaultTimeout.
	Timeout time.Duration
	// Queue bounds the calls of a lane that are about to be sent. If zero, DefaultQueue.
	Queue int
	// OnAway, if not nil, is called with the reason when a lane considers the server away, and
	// with nil when it is back: once for each change, not concurrently.
	OnAway func(error)
	// OnRefused, if not nil, is called with an error that the server has answered to a call, for
	// example because of a missing permission: at most once a minute. Calls of other scripts may
	// go well, so OnAway need not be called.
	OnRefused func(error)
	// OnPipeline, if not nil, is told how long a pipeline took of which a call was answered.
	OnPipeline func(time.Duration)
	// Backlog, if not nil, returns the calls that a lane has to make first when the server
	// is back; none if there are no more. Their answers go to Then.
	Backlog func(lane int) []*Call
}

// A Link sends calls to a server. It is safe for concurrent use. It has goroutines only while
// it sends something.
type Link struct {
	cfg   Config
	epoch time.Time
	lanes []Lane
	count counters
	// refused is when OnRefused was last called, since epoch; 0 if never.
	refused atomic.Int64

	ctx     context.Context // ends with Close
	end     context.CancelFunc
	sending context.Context // of the pipelines: ends when Close waits no longer
	cut     context.CancelFunc
	mu      sync.Mutex // guards closed
	closed  bool
	running sync.WaitGroup // none is added once closed
	telling sync.Mutex     // held while OnAway is called
}

// A Call is one run of a script. It is used once.
type Call struct {
	Script *Script
	Keys   []string // of one slot, if the server is a Cluster
	Args   []any
	// Look returns the arguments with which the script changes nothing: for a probe.
	Look func() []any
	// Undo takes back what the server has granted to a caller that has left; nil if nothing.
	Undo func(numbers []int64)
	// Then gets the answer of a call that has no caller; else nil.
	Then func(Answer)

	left atomic.Uint32 // asked, then answered or gone
	wait waitq.Call[Answer]
}

const (
	asked = iota
	answered
	gone
)

// An Answer is the reply of a script. The error is ErrAway if the server has not decided.
type Answer struct {
	Numbers []int64
	Err     error
}

type counters struct{ pipelines, failures, late atomic.Uint64 }

// Stats are the state of a Link, and its counts.
type Stats struct {
	Away      bool   // the server is considered away; of a Cluster, at least one master
	Pipelines uint64 // that were sent
	Failures  uint64 // pipelines without an answer, or with errors only
	Late      uint64 // calls without an answer within Timeout
}

// New returns a Link. It does not contact the server.
func New(cfg Config) *Link {
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.Queue = cmp.Or(cfg.Queue, DefaultQueue)
	if cfg.OnAway == nil {
		cfg.OnAway = func(error) {}
	}
	l := &Link{cfg: cfg, epoch: time.Now(), lanes: make([]Lane, 1)}
	l.ctx, l.end = context.WithCancel(context.Background())
	l.sending, l.cut = context.WithCancel(context.Background())
	if cfg.Cluster {
		l.lanes = make([]Lane, clusterLanes)
	}
	for i := range l.lanes {
		l.lanes[i].link, l.lanes[i].Index = l, i
	}
	return l
}

// Run runs f in a goroutine, unless the Link is closed. It reports whether it does.
func (l *Link) Run(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.running.Go(f)
	}
	return !l.closed
}

// Context returns a context that ends with Close.
func (l *Link) Context() context.Context { return l.ctx }

// Close rejects further calls that have a caller. The calls that are in flight, or are about to be sent, have half
// a second: tokens that were given back just before are not lost. Then it cuts them off, and
// waits for the goroutines for at most as long: the client may be blocked for longer.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.end()
	ended := make(chan struct{})
	go func() { l.running.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(parting):
	}
	l.cut()
	select {
	case <-ended:
	case <-time.After(parting):
	}
	for i := range l.lanes {
		l.lanes[i].abandon()
	}
}

// tellRefused calls OnRefused if an error is an answer of the server.
func (l *Link) tellRefused(err error) {
	if l.cfg.OnRefused == nil || answerOf(err) == "" {
		return
	}
	now, last := max(time.Since(l.epoch), 1), l.refused.Load()
	if (last == 0 || now-time.Duration(last) > time.Minute) && l.refused.CompareAndSwap(last, int64(now)) {
		l.cfg.OnRefused(err)
	}
}

// Stats returns the state and the counts. They are read one after the other.
func (l *Link) Stats() Stats {
	s := Stats{Pipelines: l.count.pipelines.Load(), Failures: l.count.failures.Load(), Late: l.count.late.Load()}
	for i := range l.lanes {
		s.Away = s.Away || l.lanes[i].breaker.Open()
	}
	return s
}

// Lanes returns the number of lanes.
func (l *Link) Lanes() int { return len(l.lanes) }

// Lane returns the lane of a key.
func (l *Link) Lane(key string) *Lane {
	if len(l.lanes) == 1 {
		return &l.lanes[0]
	}
	return &l.lanes[redisscript.Slot(key)*len(l.lanes)/redisscript.Slots]
}
