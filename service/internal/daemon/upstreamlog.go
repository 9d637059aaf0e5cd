package daemon

import (
	"log/slog"
	"sync"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
)

// logUpstream returns a function that logs why the link to the upstream does not work: each reason
// once, until the link works or the instance ends. It also logs once that the upstream of a link has
// other rules or another version than this instance.
func (d *Daemon) logUpstream(url slog.Attr, rules func() *config.Rules) func(peer.State) {
	last, differs, version := "", [2]string{}, d.cfg.Version
	return func(s peer.State) {
		text := ""
		if s.Err != nil {
			text = s.Err.Error()
		}
		if text != "" && text != last && !d.draining.Load() {
			d.log.Warn("there is no link to the upstream, which is asked where there is no assignment", url, "error", s.Err)
		}
		last = text
		if s.Up && s.Peer.Version != version {
			if version = s.Peer.Version; version != d.cfg.Version {
				d.log.Info("the upstream has another version", url, "version", version, "own", d.cfg.Version)
			}
		}
		own, theirs := rules().Hash, s.Peer.Rules
		switch now := [2]string{own, theirs}; {
		case !s.Up || own == "" || theirs == "" || now == differs:
		case own == theirs:
			differs = [2]string{}
		default:
			differs = now
			d.log.Warn("the upstream has other rules: the two may decide differently about a key", url, "rules", own, "upstream_rules", theirs)
		}
	}
}

// awayEvery is the least time between two logs that the upstream is away.
const awayEvery = time.Second

// An awayLog logs that the upstream is away, at most once in awayEvery, and that it is back after that.
type awayLog struct {
	log func(err error) // why it is away; nil if it is back

	mu     sync.Mutex // guards what follows
	reason error      // why it is away now; nil if it is not
	told   bool       // that it is away
	at     time.Time  // when that was last logged
	later  bool       // a call of flush is due
}

// note takes in that the upstream is away now, or back.
func (a *awayLog) note(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reason = err
	wait := awayEvery - time.Since(a.at)
	switch {
	case err == nil || wait <= 0:
		a.tellLocked()
	case !a.later:
		a.later = true
		time.AfterFunc(wait, a.flush)
	}
}

// flush logs what could not be logged before.
func (a *awayLog) flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.later = false
	a.tellLocked()
}

func (a *awayLog) tellLocked() {
	away := a.reason != nil
	if away == a.told {
		return
	}
	if a.told = away; away {
		a.at = time.Now()
	}
	a.log(a.reason)
}
