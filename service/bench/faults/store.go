package main

import (
	"fmt"
	"strings"
	"time"
)

const (
	instances = 3
	absence   = 4 * time.Second // of a store, an owner or an upstream

	storeTimeout = 200 * time.Millisecond // --store-timeout; longer where the store decides

	ofStoreFaults = "redis.md#what-faults-cost"
	ofStore       = "redis.md#weir-serve---store"
	ofStoreLeases = "redis.md#leases-concurrency-limits-and-locks"
)

// apart bounds what is allowed while some instances know that the store is away, or back, and others do not: d of the
// docs. The time is three times --store-timeout in the beginning, and in the end twice the absence, but 5 s at most.
var apart = rate * float64(instances-1) / instances * (3*storeTimeout + min(2*absence, 5*time.Second)).Seconds()

// A store is a Redis on its own host, with instances of weir serve that share it.
type store struct {
	w         *world
	server    *proc
	instances []*proc
	password  string
}

// store starts them. before is a command that runs the server.
func (w *world) store(timeout time.Duration, env []string, before []string, args ...string) *store {
	h := w.host()
	s := &store{w: w}
	s.server = &proc{h: h, env: env, addr: h.ip + ":6379", args: append(before, append([]string{
		"redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--dir", w.dir, "--save", ""}, args...)...)}
	h.processes = append(h.processes, s.server)
	s.server.again()
	for range instances {
		s.instances = append(s.instances, w.host().serve("--rules", w.file("rules.yaml", rules(", away: deny")),
			"--store", "redis://"+s.server.addr, "--store-timeout", timeout.String(), "--store-known", "1s", "--instances", fmt.Sprint(instances)))
	}
	for _, p := range s.instances {
		p.untilReady()
	}
	return s
}

// do sends the server a command.
func (s *store) do(command string) {
	auth := ""
	if s.password != "" {
		auth = "--no-auth-warning -a " + s.password + " "
	}
	s.w.run("redis-cli -h " + s.server.h.ip + " " + auth + command)
}

// A storeFault begins and ends while instances are under load.
type storeFault struct {
	name       string
	env        func(w *world) []string
	before     []string
	args       []string
	begin, end func(s *store)

	bursts  float64 // beyond the rate
	decides bool    // the server decides all the time
	loses   bool    // the server loses its state
	double  bool    // a unit can be held twice for a while, though the state is kept
}

var slowSync = strings.Fields("strace -f -qq --seccomp-bpf -e trace=fdatasync,fsync -e signal=none -e inject=fdatasync,fsync:delay_enter=200000 -o /dev/null")

var storeFaults = []storeFault{
	{name: "silent partition of all instances", bursts: 2, begin: func(s *store) { s.server.h.unplug() }, end: func(s *store) { s.server.h.plug() }},
	{name: "SIGSTOP", bursts: 2, begin: func(s *store) { s.server.stop() }, end: func(s *store) { s.server.cont() }},
	{name: "kill -9, with `appendfsync always`", bursts: 2, args: []string{"--appendonly", "yes", "--appendfsync", "always"},
		begin: func(s *store) { s.server.kill() }, end: func(s *store) { s.server.again() }},
	{name: "kill -9, without persistence", bursts: 3, loses: true, begin: func(s *store) { s.server.kill() }, end: func(s *store) { s.server.again() }},
	{name: "its host vanishes, and half-open connections stay", bursts: 2, args: []string{"--appendonly", "yes", "--appendfsync", "always"},
		begin: func(s *store) { s.server.h.unplug(); s.server.kill() }, end: func(s *store) { s.server.launch(); s.server.h.plug() }},
	{name: "`FLUSHALL`", bursts: 2, decides: true, loses: true, begin: func(s *store) { s.do("FLUSHALL") }, end: func(*store) {}},
	{name: "its clock steps 5 s ahead, and back", bursts: 2, decides: true, double: true, env: func(w *world) []string {
		return []string{"LD_PRELOAD=" + w.setup.clock, "REDISTEST_CLOCK=" + w.file("ahead", "0")}
	}, begin: func(s *store) { s.w.file("ahead", "5") }, end: func(s *store) { s.w.file("ahead", "0") }},
	{name: "rotated password, that instances do not have", bursts: 2, begin: func(s *store) {
		s.do("CONFIG SET requirepass another")
		s.password = "another"
		s.do("CLIENT KILL TYPE normal")
	}, end: func(s *store) { s.do("CONFIG SET requirepass ''"); s.password = "" }},
	{name: "full memory, `noeviction`", bursts: 2, args: []string{"--maxmemory-policy", "noeviction"},
		begin: func(s *store) { s.do("CONFIG SET maxmemory 1") }, end: func(s *store) { s.do("CONFIG SET maxmemory 0") }},
	{name: "slow disk: each fsync takes 200 ms", bursts: 2, before: slowSync, args: []string{"--appendonly", "yes", "--appendfsync", "no"},
		begin: func(s *store) { s.do("CONFIG SET appendfsync always") }, end: func(s *store) { s.do("CONFIG SET appendfsync no") }},
}

func storePlays() (all []row) {
	for _, f := range storeFaults {
		all = append(all, row{"store", f.name, f.play})
	}
	return append(all, row{"store", "silent partition of one of three instances", playStoreCut}, row{"store", "full disk, and it ends", playStoreDisk},
		row{"store", "kill -9 of an instance", func(w *world) { playInstance(w, (*proc).kill) }},
		row{"store", "versions that differ: an instance starts as the release before", func(w *world) {
			playInstance(w, func(p *proc) { p.restart(w.released) })
		}},
		row{"store", "SIGSTOP of an instance for 3 s", func(w *world) {
			playInstance(w, func(p *proc) { p.stop(); time.Sleep(3 * time.Second); p.cont() })
		}})
}

var storeRows = storePlays()

func (f storeFault) play(w *world) {
	var env []string
	if f.env != nil {
		env = f.env(w)
	}
	timeout := storeTimeout
	if f.decides {
		timeout = patience
	}
	s := w.store(timeout, env, f.before, f.args...)
	s.play(f.begin, f.end, func(all answers, from, to time.Duration) {
		stated, bound := fmt.Sprintf("%.0f*b*", f.bursts), f.bursts*burst
		if !f.decides {
			stated, bound = stated+" + *d*", bound+apart
		}
		w.excess(all, bound, stated, ofStoreFaults)
		w.none("requests without a decision", all.failures(), "an instance decides by itself", ofStore)
		if !f.decides {
			degraded(all.between(from, to))
			w.late(all, from, to, 2*timeout, "two `--store-timeout`: an answer takes up to two round trips", ofStoreFaults)
		}
	}, f.loses || f.double)
}

// play puts the instances under load, before, during and after a fault.
func (s *store) play(begin, end func(s *store), measures func(all answers, from, to time.Duration), twice bool) {
	w := s.w
	l, h := w.startLoad(instances, 2, w.tokens("k", s.instances...)), w.hold("slots", 4, s.instances...)
	w.pause(3 * time.Second)
	from := l.now()
	begin(s)
	time.Sleep(absence)
	to := l.now()
	end(s)
	until("the store decides again", func() bool {
		recent := l.sofar().between(l.now()-time.Second, l.now())
		for _, a := range recent {
			if a.step != "" {
				return false
			}
		}
		return len(recent) > 0
	})
	all := l.stop()
	measures(all, from, to)
	if twice {
		w.held(h, 2*units, "twice the limit, until holders renew", ofStoreLeases)
		return
	}
	w.held(h, units, "the limit, with `away: deny`", ofStore)
}

// playStoreCut cuts an instance off from the store.
func playStoreCut(w *world) {
	s := w.store(storeTimeout, nil, nil)
	cuts := func(f func(a, b *host)) func(*store) {
		return func(s *store) { f(s.instances[0].h, s.server.h) }
	}
	s.play(cuts(cut), cuts(heal), func(all answers, from, to time.Duration) {
		cutOff := (absence + 5*time.Second).Seconds() // until it asks the store again
		w.excess(all, burst+(burst+rate*cutOff)/instances, "*b* + *M*/*N* × (*b* + *rA*), *A* = 4 s and 5 s until the next probe", ofStoreFaults)
		w.none("requests without a decision", all.failures(), "an instance decides by itself", ofStore)
		w.late(all, from, to, 2*storeTimeout, "two `--store-timeout`: an answer takes up to two round trips", ofStoreFaults)
	}, false)
}

// playStoreDisk fills the disk of the store, which ends because of it, and is started again once there is room.
func playStoreDisk(w *world) {
	w.dir = w.disk("disk", "2m")
	s := w.store(storeTimeout, nil, nil, "--appendonly", "yes", "--appendfsync", "always")
	var free func()
	s.play(func(s *store) { free = fill(w.dir) }, func(s *store) {
		<-s.server.ended
		free()
		s.server.again()
	}, func(all answers, from, to time.Duration) {
		w.excess(all, 2*burst+apart, "2*b* + *d*", ofStoreFaults)
		w.none("requests without a decision", all.failures(), "an instance decides by itself", ofStore)
		w.late(all, from, to, 2*storeTimeout, "two `--store-timeout`: an answer takes up to two round trips", ofStoreFaults)
	}, false)
}

// playInstance plays a fault of one of the instances that share a store.
func playInstance(w *world, fault func(p *proc)) {
	s := w.store(patience, nil, nil)
	l, h := w.startLoad(instances, 2, w.tokens("k", s.instances...)), w.hold("slots", 4, s.instances...)
	w.pause(2 * time.Second)
	fault(s.instances[0])
	w.pause(2 * time.Second)
	all := l.stop()
	w.excess(all, burst, "*b*: the store decides", ofStore)
	w.none("requests to the others without a decision", all.of(1, 2).failures(), "the store decides", ofStore)
	w.held(h, units, "the limit", ofStore)
}
