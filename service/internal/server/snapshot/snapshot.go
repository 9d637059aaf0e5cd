package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/snapshot/state"
)

// Snapshot writes what must outlive the process, for Restore in the next one: the
// tokens that keys have used, leases, what leaves have, the limits that auto has found, and the
// secrets of ids. Counters, the keys of Top and waiting requests are left out. What
// Restore could not use is carried along for a day. Requests that are decided during the
// call may or may not be included. Snapshot takes less than a MiB of memory for any number
// of keys, and 8 bytes for each lease and for each key of one leaf. Nothing is locked while w is written to.
//
// ended says that the node grants nothing after the call. If it does not, or if the
// node still recovers from a crash, the next process recovers: see Restore.
//
// A reader of a snapshot can return leases, settle grants, and construct keys that
// share a bucket.
func (k *Keeper) Snapshot(w io.Writer, ended bool) error {
	wall := wallTime()
	k.cfg.Reload.Lock()
	rs, gone := k.cfg.Memory.Current(), k.cfg.Leases.Gone()
	k.carried.expire(wall)
	carried := k.carried.clone()
	k.cfg.Reload.Unlock()
	all := state.Snapshot{Wall: wall, Clock: k.cfg.Clock.Now(), Limits: carried.limits}
	places := map[*lease.Limits]int{}
	add := func(name string, l *lease.Limits) {
		places[l] = len(all.Rules)
		all.Rules = append(all.Rules, state.Rule{Name: name, Per: l.Per, Longest: l.Longest()})
	}
	for r, l := range k.cfg.Leases.InForce {
		if found := l.Found(); len(found) > 0 {
			all.Limits = append(all.Limits, state.Limits{Rule: r.Name, Found: found})
		}
		add(r.Name, l)
	}
	for name, l := range gone {
		add(name, l)
	}
	out, err := state.NewWriter(w, ended && !k.cfg.Leases.Recovering())
	if err != nil {
		return err
	}
	var leases iter.Seq[[]lease.SavedLease]
	all.Leases, leases = k.cfg.Leases.State(places)
	if all.LeasesAt, err = out.Leases(leases); err != nil {
		return err
	}
	if all.LeafKeysAt, err = out.LeafKeys(k.cfg.Leaves.Saved()); err != nil {
		return err
	}
	for _, kept := range rs.Kept() {
		counts := state.Counts{Rule: kept.Rule, Candidate: kept.Candidate, Since: kept.State.Since, Kind: kept.Buckets.Kind()}
		if counts.Data, err = out.Section(kept.Buckets.Snapshot); err != nil {
			return fmt.Errorf("server: rule %q: %w", kept.Rule, err)
		}
		all.Counts = append(all.Counts, counts)
	}
	if all.Own, err = out.Section(k.cfg.Memory.Own().Snapshot); err != nil {
		return fmt.Errorf("server: quotas of requests: %w", err)
	}
	for _, counts := range carried.counts {
		if counts.Data, err = out.Section(carried.copyOf(counts)); err != nil {
			return fmt.Errorf("server: rule %q, which is missing: %w", counts.Rule, err)
		}
		all.Counts = append(all.Counts, counts)
	}
	if all.PagesAt, err = out.Pages(k.cfg.Grants.Pages()); err != nil {
		return err
	}
	all.Grants = k.cfg.Grants.State()
	return out.Close(&all)
}

// wallTime returns the time since 1970 as the clock of the computer has it.
func wallTime() time.Duration { return time.Duration(time.Now().UnixNano()) }

// SaveFile writes a Snapshot to a file that only its owner can read, in place of
// the file there. If it fails, that stays unchanged. There must be one call at a
// time.
func (k *Keeper) SaveFile(path string, ended bool) error {
	err := state.WriteFile(path, func(w io.Writer) error { return k.Snapshot(w, ended) })
	if err == nil {
		k.carryFrom(path)
	}
	return err
}

// Restored describes the result of Restore.
type Restored struct {
	Rules  int // that continue their counts
	Leases int // that are held again
	// Crashed reports that the node of that time has not written its last Snapshot, or
	// has done so while it recovered from a crash.
	Crashed bool
	// Skipped describes everything that has no use under the present rules, and why.
	Skipped []string
}

// Restore continues from a Snapshot: buckets have refilled since, leases last as long as
// they had left, and ids of grants and leases are valid. Rules are found by their names.
// Leases are held even if the limit is lower now, or if no rule grants leases now. Counts
// of a rule that is gone, or that counts in another way, are kept for a day: Snapshot
// includes them, and Reload continues them if the rule is back.
//
// If the node of that time did not end with its last Snapshot, or was recovering, leases that it has
// granted since are not in it. Then each rule grants no lease until the longest time to
// live of its leases has passed, and all leases in the Snapshot are held as long. A lease
// that is not in it is adopted when its holder renews it.
//
// Leaves have what they had, for as long as they may use it. After a crash, some may have more: see package assign.
//
// Restore reads src twice, in parts: it checks all of it before it changes anything. If the
// error is state.ErrInvalid, nothing has changed; after another one, such as that of a
// disk, the node must not be used. Restore must be called before any other use of the
// node. src stays open, and is read again, for as long as it has counts of missing rules.
func (k *Keeper) Restore(src state.Source) (done Restored, err error) {
	from, err := state.Open(src)
	if err != nil {
		return Restored{}, errors.Join(err, src.Close())
	}
	defer func() {
		if err != nil {
			src.Close()
		}
	}()
	k.cfg.Reload.Lock()
	defer k.cfg.Reload.Unlock()
	passed := max(wallTime()-from.Wall, 0)
	k.cfg.Clock.Resume(from.Clock + min(passed, max(rules.MaxSpan-from.Clock, 0)))
	done = Restored{Crashed: !from.Ended}
	rs := k.cfg.Memory.Current()
	for st := range rs.States {
		st.Since = k.cfg.Memory.Since()
	}
	k.carried = carried{from: from, counts: from.Counts, limits: from.Limits, fleet: k.cfg.Chunks != nil}
	if done.Rules, done.Skipped, err = k.carried.restore(rs.Kept(), k.cfg.Leases.ByName()); err != nil {
		return done, err
	}
	if from.Own.Size > 0 {
		if err := k.cfg.Memory.Own().Restore(from.Section(from.Own)); errors.As(err, new(*fs.PathError)) {
			return done, err
		} else if err != nil {
			done.Skipped = append(done.Skipped, fmt.Sprintf("the counts of quotas that requests brought: %v", err))
		}
	}
	k.carried.leave(from.Wall)
	k.carried.expire(wallTime())
	k.cfg.Keys.Invalidate()
	leaves := from
	if k.cfg.Chunks != nil {
		leaves = nil // others have owned its keys since
	}
	if err := k.cfg.Leaves.Restore(leaves); err != nil {
		return done, err
	}
	if done.Crashed {
		k.recoverLeases(from.Rules)
	}
	k.cfg.Leases.Restore(&from.Leases)
	under := k.restoredRules(func(place int) (string, config.Per) { return from.Rules[place].Name, from.Rules[place].Per })
	for some, err := range from.Held() {
		if err != nil {
			return done, err
		}
		k.cfg.Leases.Hold(some, from.Clock, under)
	}
	done.Leases, _ = k.cfg.Leases.Count()
	if from.Grants.Fleet != (k.cfg.Chunks != nil) {
		done.Skipped = append(done.Skipped, "the settled grants: grants of a fleet have other ids")
		return done, k.carried.release()
	}
	k.cfg.Grants.Restore(from.Grants, done.Crashed)
	for p, err := range from.Pages() {
		if err != nil {
			return done, err
		}
		k.cfg.Grants.RestorePage(p)
	}
	return done, k.carried.release()
}

// Recover does for leases what Restore does after a crash, if there is no Snapshot to be
// read. It must be called before any other use of the node.
func (k *Keeper) Recover() {
	k.cfg.Reload.Lock()
	defer k.cfg.Reload.Unlock()
	k.recoverLeases(nil)
}

// recoverLeases begins a recovery from a process that had leases under rules.
func (k *Keeper) recoverLeases(had []state.Rule) {
	longest := map[string]time.Duration{}
	for _, r := range had {
		longest[r.Name] = r.Longest
	}
	k.cfg.Leases.Recover(longest)
	for _, l := range k.cfg.Leases.InForce {
		l.Recover()
	}
}

// Recovers returns the longest time until a rule grants leases, after a crash.
func (k *Keeper) Recovers() (longest time.Duration) {
	for _, l := range k.cfg.Leases.InForce {
		longest = max(longest, l.Recovers())
	}
	return longest
}

// restoredRules returns a function that returns the present limits of a rule of a
// Snapshot, by its place there. A rule that is gone has limits while leases are held under
// them, as after Reload.
func (k *Keeper) restoredRules(was func(place int) (name string, per config.Per)) func(place int, key string) lease.Under {
	byName := k.cfg.Set().ByName()
	return func(place int, key string) lease.Under {
		name, per := was(place)
		if r := byName[name]; r != nil {
			return lease.Under{Limits: k.cfg.Leases.Named(name, per), Bucket: r.Bucket(key), Shadow: r.Mode == config.Shadow}
		}
		gone := rules.Rule{Rule: config.Rule{Per: per}}
		return lease.Under{Limits: k.cfg.Leases.Named(name, per), Bucket: gone.Bucket(key)}
	}
}

// LoadFile is Restore from a file.
func (k *Keeper) LoadFile(path string) (Restored, error) {
	f, err := state.OpenFile(path)
	if err != nil {
		return Restored{}, err
	}
	return k.Restore(f)
}
