package memory

import (
	"fmt"

	"github.com/weir-go/weir/service/internal/bytesize"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/quota"
	"github.com/weir-go/weir/service/internal/server/rules"
)

// shareOfMemory returns the memory for the counts of each rule, and of each candidate, without
// its own memory: an equal part of what the others leave, but at least
// quota.MinMemory.
func (m *Counts) shareOfMemory(set *rules.Set) (int, error) {
	own, tables := 0, m.ownTables()
	if set.Config.Overrides == config.FixedWindow {
		tables++
	}
	for _, r := range set.Rules {
		if n := tablesOf(&r.Rule); r.Memory > 0 {
			own += n * int(r.Memory)
		} else {
			tables += n
		}
	}
	left := m.cfg.Memory - own
	if left < tables*quota.MinMemory && own > 0 {
		return 0, fmt.Errorf("server: the memory of rules is %v together, and %d other rules and candidates need %v each: must be at most the memory of the server, which is %v",
			bytesize.Size(own), tables, bytesize.Size(quota.MinMemory), bytesize.Size(m.cfg.Memory))
	}
	return max(left/max(tables, 1), quota.MinMemory), nil
}

// ownTables returns how many tables have a share for the quotas that requests bring.
func (m *Counts) ownTables() int {
	if m.cfg.OwnQuotas {
		return 1
	}
	return 0
}

// ownMemory returns the memory for the buckets of these quotas.
func (m *Counts) ownMemory(share int) int {
	if m.cfg.OwnQuotas {
		return share
	}
	return quota.MinMemory
}

// tablesOf returns how many tables of keys a rule has: for its counts, and for those of
// its candidate.
func tablesOf(r *config.Rule) (n int) {
	if single(r) {
		return 0
	}
	if r.Rated() {
		n++
	}
	if r.Candidate != nil {
		n++
	}
	return n
}

// single reports whether a rule has a single bucket.
func single(r *config.Rule) bool { return r.Key != "" || r.Per == config.PerRule }

// memoryOf returns the memory for each table of a rule.
func memoryOf(r *config.Rule, share int) int {
	switch {
	case single(r):
		return quota.MinMemory
	case r.Memory > 0:
		return int(r.Memory)
	}
	return share
}

// setMemory changes the memory for the counts and for those of the candidate.
func (r *Rule) setMemory(most int) {
	for _, b := range []quota.Buckets{r.Buckets, r.Candidate} {
		if b != nil {
			b.SetMemory(most)
		}
	}
}
