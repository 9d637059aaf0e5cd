package redistest

import (
	"strconv"
	"sync"
	"testing"
	"time"
)

// A Store is a server, a Cluster or a Pair, with a fault.
type Store struct {
	Addrs      func(instance int) []string // of the servers, or of sentinels if there is a MasterName
	MasterName string
	Cluster    bool

	// Begin begins the fault, and End ends it. End does nothing if the servers recover on their own.
	Begin, End func()
}

// A Fault is something that goes wrong with a Store while it is in use.
type Fault struct {
	Name string
	Away bool // the store decides for no instance within DefaultTimeout of redislimit
	Cut  int  // the number of instances, from the first, for which only it does not decide
	// Bursts bounds what is granted beyond the rate in any span of time, in bursts of the limit:
	// one of the limit itself, one of the shares of all instances if the store is Away, and one
	// for each loss of the state. The share of an instance that is Cut off comes in addition.
	Bursts int
	// Prepare starts the store.
	Prepare func(t testing.TB, engine string) *Store
}

// Key is the key of a load. Its hash tag decides its slot, whatever prefix a client adds.
const Key = "{load}"

// Faults are the known ones. During the first, the store decides every call.
var Faults = []Fault{
	{Name: "script cache flushed", Bursts: 1, Prepare: command("SCRIPT", "FLUSH")},
	{Name: "keys flushed", Bursts: 2, Prepare: command("FLUSHALL")},
	{Name: "clock steps 5 s ahead", Bursts: 2, Prepare: clockStep(5)},
	{Name: "clock steps 5 s back", Bursts: 2, Prepare: clockStep(-5)},
	{Name: "200 ms of latency, within the budget", Bursts: 1, Prepare: latency},
	{Name: "slot moves", Bursts: 1, Prepare: slotMoves},

	{Name: "200 ms of latency, beyond the budget", Away: true, Bursts: 2, Prepare: latency},
	{Name: "killed, without persistence", Away: true, Bursts: 3, Prepare: killed()},
	{Name: "killed, with appendfsync always", Away: true, Bursts: 2, Prepare: killed("--appendonly", "yes", "--appendfsync", "always")},
	{Name: "replies lost", Away: true, Bursts: 2, Prepare: silence(nil)},
	{Name: "replies to one of three lost", Cut: 1, Bursts: 1, Prepare: silence(func(instance int) bool { return instance > 0 })},
	{Name: "network cut", Away: true, Bursts: 2, Prepare: networkCut},
	{Name: "DEBUG SLEEP", Away: true, Bursts: 2, Prepare: debugSleep},
	{Name: "busy script", Away: true, Bursts: 2, Prepare: busy},
	{Name: "wrong password", Away: true, Bursts: 2, Prepare: password},
	{Name: "store full", Away: true, Bursts: 2, Prepare: full},
	{Name: "Sentinel failover", Away: true, Bursts: 3, Prepare: sentinelFailover},
	{Name: "Sentinel failover, clocks 10 s apart", Away: true, Bursts: 3, Prepare: skewedFailover},
	{Name: "Cluster failover", Away: true, Bursts: 3, Prepare: clusterFailover},
}

// at returns the same addresses for every instance.
func at(addrs ...string) func(int) []string { return func(int) []string { return addrs } }

// command has a server do something at the beginning and at the end.
func command(args ...string) func(testing.TB, string) *Store {
	return func(t testing.TB, engine string) *Store {
		s := Start(t, engine)
		return &Store{Addrs: at(s.Addr), Begin: func() { s.Do(args...) }, End: func() {}}
	}
}

func clockStep(seconds int) func(testing.TB, string) *Store {
	return func(t testing.TB, engine string) *Store {
		clock := NewClock(t)
		s := clock.Start(engine)
		return &Store{Addrs: at(s.Addr), Begin: func() { clock.Set(seconds) }, End: func() { clock.Set(0) }}
	}
}

func latency(t testing.TB, engine string) *Store {
	p := NewProxy(t, Start(t, engine))
	return &Store{Addrs: at(p.Addr), Begin: func() { p.Delay(200 * time.Millisecond) }, End: func() { p.Delay(0) }}
}

// slotMoves moves the slot of Key to the next master and back.
func slotMoves(t testing.TB, engine string) *Store {
	c := StartCluster(t, engine, 3)
	from := c.Owner(Key)
	to := (from + 1) % len(c.Masters)
	const pause = 200 * time.Millisecond
	return &Store{
		Addrs: at(c.Addrs()...), Cluster: true,
		Begin: func() { c.MoveSlot(Key, c.Masters[from], c.Masters[to], pause) },
		End:   func() { c.MoveSlot(Key, c.Masters[to], c.Masters[from], pause) },
	}
}

func killed(args ...string) func(testing.TB, string) *Store {
	return func(t testing.TB, engine string) *Store {
		s := Start(t, engine, args...)
		return &Store{Addrs: at(s.Addr), Begin: s.Kill, End: s.Run}
	}
}

// silence loses replies to all instances, except to instances that connect directly.
func silence(direct func(instance int) bool) func(testing.TB, string) *Store {
	return func(t testing.TB, engine string) *Store {
		s := Start(t, engine)
		p := NewProxy(t, s)
		return &Store{
			Addrs: func(instance int) []string {
				if direct != nil && direct(instance) {
					return []string{s.Addr}
				}
				return []string{p.Addr}
			},
			Begin: func() { p.Silence(true) }, End: func() { p.Silence(false) },
		}
	}
}

func networkCut(t testing.TB, engine string) *Store {
	n := NewNetwork(t)
	s := n.Start(engine)
	return &Store{Addrs: at(s.Addr), Begin: func() { n.Cut(true) }, End: func() { n.Cut(false) }}
}

// background has a server do a command that takes until End.
func background(s *Server, args ...string) (begin, wait func()) {
	var group sync.WaitGroup
	return func() { group.Go(func() { _, _ = s.Try(args...) }) }, group.Wait
}

func debugSleep(t testing.TB, engine string) *Store {
	s := Start(t, engine, "--enable-debug-command", "yes")
	begin, wait := background(s, "DEBUG", "SLEEP", "1.5")
	return &Store{Addrs: at(s.Addr), Begin: begin, End: wait}
}

func busy(t testing.TB, engine string) *Store {
	s := Start(t, engine, "--busy-reply-threshold", "100")
	begin, wait := background(s, "EVAL", "while true do end", "0")
	return &Store{Addrs: at(s.Addr), Begin: begin, End: func() { s.Do("SCRIPT", "KILL"); wait() }}
}

// password changes the password, and ends the connections that have given the old one.
func password(t testing.TB, engine string) *Store {
	s := Start(t, engine)
	return &Store{
		Addrs: at(s.Addr),
		Begin: func() {
			s.Do("CONFIG", "SET", "requirepass", "another")
			s.Password = "another"
			s.Do("CLIENT", "KILL", "TYPE", "normal")
		},
		End: func() {
			s.Do("CONFIG", "SET", "requirepass", "")
			s.Password = ""
		},
	}
}

func full(t testing.TB, engine string) *Store {
	s := Start(t, engine, "--maxmemory-policy", "noeviction")
	memory := func(bytes int) func() {
		return func() { s.Do("CONFIG", "SET", "maxmemory", strconv.Itoa(bytes)) }
	}
	return &Store{Addrs: at(s.Addr), Begin: memory(1), End: memory(0)}
}

func sentinelFailover(t testing.TB, engine string) *Store {
	return failover(StartPair(t, engine))
}

// skewedFailover goes from a server with a fast clock to one with a slow clock.
func skewedFailover(t testing.TB, engine string) *Store {
	ahead, behind := NewClock(t), NewClock(t)
	ahead.Set(5)
	behind.Set(-5)
	return failover(Watch(t, ahead.Start(engine, "--repl-diskless-sync-delay", "0"), behind.Start(engine)))
}

func failover(p *Pair) *Store {
	return &Store{Addrs: at(p.Sentinel.Addr), MasterName: MasterName, Begin: p.Master.Kill, End: func() {}}
}

func clusterFailover(t testing.TB, engine string) *Store {
	c := StartCluster(t, engine, 3)
	return &Store{Addrs: at(c.Addrs()...), Cluster: true, Begin: c.Masters[c.Owner(Key)].Kill, End: func() {}}
}
