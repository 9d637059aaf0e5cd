package redislimit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/circuit"
	"github.com/weir-go/weir/internal/redisscript"
	"github.com/weir-go/weir/internal/waitq"
)

const (
	maxBatch = 1000 // calls in one pipeline
	maxStuck = 8    // pipelines of a lane that have taken longer than Timeout, and have not ended
	// clusterLanes is the number of lanes to a Cluster. A lane has the keys of some adjacent
	// slots, which most often are at one master, so that a master that is away delays no keys
	// of the others.
	clusterLanes = 16
)

// errAway is the error of a call without an answer in time; the caller decides itself.
var errAway = errors.New("redislimit: no answer in time")

// errClosed is the error of calls after Close.
var errClosed = weir.Reject(weir.Closed, 0)

// A link sends calls to the server, in pipelines.
type link struct {
	rdb     redis.UniversalClient
	timeout time.Duration
	queue   int // most calls of a lane that are not sent yet
	onAway  func(error)
	// backlog returns the calls that a lane has to make first when the server is back.
	backlog func(lane int) []*call

	epoch time.Time
	lanes []lane
	count counters

	ctx     context.Context // ends with Close
	end     context.CancelFunc
	mu      sync.Mutex // guards closed
	closed  bool
	running sync.WaitGroup // none is added once closed
	telling sync.Mutex     // held while onAway is called
}

// A lane sends the calls for some of the keys. It has one pipeline in flight. The calls that
// come meanwhile go together in the next one, so that pipelines delay no call, and grow with
// the load. If a pipeline takes longer than the timeout, the lane goes on with another.
type lane struct {
	*link
	index    int
	breaker  circuit.Breaker
	answered atomic.Int64 // when the server last answered, since epoch; 0 if never

	mu     sync.Mutex // guards what follows
	calls  []*call
	flying bool // a goroutine sends
	stuck  int  // goroutines that still wait for a pipeline whose time is over
}

// A call is one run of a script.
type call struct {
	script *redis.Script
	keys   []string
	args   []any
	// look returns the arguments with which the script changes nothing.
	look func() []any
	// undo takes back what the server has granted to a caller that has left; nil if nothing.
	undo func(numbers []int64)
	// then gets the answer of a call that has no caller; else nil.
	then func(answer)

	left atomic.Uint32 // asked, then answered or gone
	wait waitq.Call[answer]
}

const (
	asked = iota
	answered
	gone
)

// An answer is the reply of a script. The error is errAway if the server has not decided.
type answer struct {
	numbers []int64
	err     error
}

// start prepares the link for use.
func (l *link) start() {
	l.epoch = time.Now()
	l.ctx, l.end = context.WithCancel(context.Background())
	l.lanes = make([]lane, 1)
	if _, ok := l.rdb.(*redis.ClusterClient); ok {
		l.lanes = make([]lane, clusterLanes)
	}
	for i := range l.lanes {
		l.lanes[i].link, l.lanes[i].index = l, i
	}
}

// run runs f in a goroutine, unless the link is closed.
func (l *link) run(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.running.Go(f)
	}
	return !l.closed
}

// close ends all calls, and waits for the goroutines for at most a second: the client may
// be blocked for longer.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.end()
	ended := make(chan struct{})
	go func() { l.running.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Second):
	}
}

// lane returns the lane of a key.
func (l *link) lane(key string) *lane {
	if len(l.lanes) == 1 {
		return &l.lanes[0]
	}
	return &l.lanes[redisscript.Slot(key)*len(l.lanes)/redisscript.Slots]
}

// ask makes a call and waits for its answer. The error is errAway if the caller has to decide.
func (l *lane) ask(ctx context.Context, c *call) ([]int64, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case l.ctx.Err() != nil:
		return nil, errClosed
	case l.breaker.Open():
		if due, _ := l.breaker.Probe(time.Now()); due {
			l.run(func() { l.probe(c) })
		}
		return nil, errAway
	}
	c.wait = waitq.NewCall[answer]()
	if err := l.enqueue(c); err != nil {
		return nil, err
	}
	a, err := c.wait.Await(ctx, l.timeout, func(bool) bool { return c.left.CompareAndSwap(asked, gone) }, func(a answer) { c.takeBack(a) })
	switch {
	case err == waitq.ErrOverdue:
		l.count.late.Add(1)
		return nil, errAway
	case err != nil:
		return nil, err
	case a.err == errAway && l.ctx.Err() != nil:
		return nil, errClosed
	}
	return a.numbers, a.err
}

// send makes a call without a caller, as soon as the server answers.
func (l *lane) send(c *call) {
	if l.breaker.Open() || l.enqueue(c) != nil {
		c.then(answer{err: errAway})
	}
}

// enqueue has a call sent with the next pipeline.
func (l *lane) enqueue(c *call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) >= l.queue {
		return errAway
	}
	if !l.flying && l.stuck < maxStuck {
		if !l.run(l.fly) {
			return errClosed
		}
		l.flying = true
	}
	l.calls = append(l.calls, c)
	return nil
}

// fly sends pipelines until no calls are left, or until a pipeline takes too long and
// another goroutine has taken over.
func (l *lane) fly() {
	for calls := l.next(); len(calls) > 0; calls = l.next() {
		overdue := time.AfterFunc(l.timeout, l.takeOver)
		err := l.exchange(calls)
		if !overdue.Stop() {
			l.ended()
			return
		}
		if l.note(err); err == nil {
			l.catchUp()
		}
	}
}

// next returns the calls of the next pipeline. If there are none, the goroutine must end.
func (l *lane) next() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		calls := l.calls[:min(len(l.calls), maxBatch)]
		l.calls = append([]*call(nil), l.calls[len(calls):]...)
		waits := calls[:0]
		for _, c := range calls {
			if c.left.Load() != gone {
				waits = append(waits, c)
			}
		}
		if l.flying = len(calls) > 0; !l.flying || len(waits) > 0 {
			return waits
		}
	}
}

// takeOver continues with other calls while a pipeline takes too long.
func (l *lane) takeOver() {
	l.note(errAway)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stuck++
	l.flying = len(l.calls) > 0 && l.stuck < maxStuck && l.run(l.fly)
}

// ended is for the end of a pipeline that has taken too long.
func (l *lane) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stuck--
	if !l.flying && len(l.calls) > 0 {
		l.flying = l.run(l.fly)
	}
}

// note tells the breaker how a pipeline went.
func (l *lane) note(err error) {
	l.count.pipelines.Add(1)
	if err == nil {
		l.answered.Store(int64(max(time.Since(l.epoch), 1)))
	} else {
		l.count.failures.Add(1)
		if c, ok := l.rdb.(*redis.ClusterClient); ok { // a pipeline does not find out that another master has the slots
			c.ReloadState(l.ctx)
		}
	}
	if l.breaker.Note(time.Now(), err) {
		l.run(func() {
			l.telling.Lock()
			defer l.telling.Unlock()
			l.breaker.Tell(l.onAway)
		})
	}
}

// known reports whether the server has answered at most d ago.
func (l *lane) known(d time.Duration) bool {
	at := time.Duration(l.answered.Load())
	return at > 0 && time.Since(l.epoch)-at <= d
}

// probe asks whether the server is back. First come the calls of the backlog, without
// which the server does not know what was decided while it was away.
func (l *lane) probe(c *call) {
	began := time.Now()
	err := l.exchange([]*call{{script: c.script, keys: c.keys, args: c.look(), then: func(answer) {}}})
	if err == nil && time.Since(began) > l.timeout {
		err = errAway
	}
	for err == nil && l.ctx.Err() == nil {
		calls := l.backlog(l.index)
		if len(calls) == 0 {
			break
		}
		err = l.exchange(calls)
	}
	l.note(err)
	l.breaker.Probed(time.Now())
}

// catchUp makes the calls of the backlog while the server is not away.
func (l *lane) catchUp() {
	for _, c := range l.backlog(l.index) {
		l.send(c)
	}
}

// exchange sends calls in a pipeline and hands out the answers. The error says that the
// server was away for all calls.
func (l *lane) exchange(calls []*call) error {
	answers := l.pipeline(calls, false)
	var unknown []int // calls whose script the server does not know
	for i, a := range answers {
		if a.err != nil && redis.HasErrorPrefix(a.err, "NOSCRIPT") {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) > 0 {
		again := make([]*call, len(unknown))
		for j, i := range unknown {
			again[j] = calls[i]
		}
		for j, a := range l.pipeline(again, true) {
			answers[unknown[j]] = a
		}
	}
	var away error
	for i, c := range calls {
		a := answers[i]
		if a.err != nil && !redis.HasErrorPrefix(a.err, "WRONGTYPE") {
			away = a.err
			a.err = errAway
		}
		c.deliver(a)
	}
	for _, a := range answers {
		if a.err == nil {
			return nil
		}
	}
	return away
}

// pipeline runs the scripts of calls, by their sources or by their hashes.
func (l *lane) pipeline(calls []*call, source bool) []answer {
	ctx, cancel := context.WithTimeout(l.ctx, l.timeout)
	defer cancel()
	pipe := l.rdb.Pipeline()
	cmds := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		if source {
			cmds[i] = c.script.Eval(ctx, pipe, c.keys, c.args...)
		} else {
			cmds[i] = c.script.EvalSha(ctx, pipe, c.keys, c.args...)
		}
	}
	_, failed := pipe.Exec(ctx)
	answers := make([]answer, len(calls))
	for i, cmd := range cmds {
		if cmd.Err() == nil && cmd.Val() == nil { // the pipeline was not sent
			cmd.SetErr(failed)
		}
		answers[i].numbers, answers[i].err = cmd.Int64Slice()
	}
	return answers
}

// deliver gives an answer to the caller. If the caller has left, what the server has granted
// goes back.
func (c *call) deliver(a answer) {
	switch {
	case c.then != nil:
		c.then(a)
	case c.left.CompareAndSwap(asked, answered):
		c.wait.Answer(a)
	default:
		c.takeBack(a)
	}
}

func (c *call) takeBack(a answer) {
	if c.undo != nil && a.err == nil {
		c.undo(a.numbers)
	}
}
