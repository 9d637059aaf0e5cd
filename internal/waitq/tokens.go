package waitq

import (
	"cmp"
	"container/list"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
)

// Tokens is the order of the calls that took tokens of one gcra.Bucket ahead of
// time, so that what one of them gives back serves the others. The owner keeps
// the Bucket itself: methods return by how much to lower it.
//
// There are two kinds of calls. One that waits is told when its turn has come, so
// it can move forward. One that holds a Promise was told an instant, and keeps
// it. So of the tokens that are given back, only as much can be refunded as
// exceeds the promises made later (the rule of golang.org/x/time/rate) and leaves
// a full bucket enough for each promise at its instant. The rest is refunded once
// no promise is open.
//
// The zero Tokens is empty. The Quota given to the methods must be the one that
// made the Buckets; only Move changes it.
type Tokens[W any] struct {
	list      list.List // of *Turn
	base, end uint64    // the Buckets before the first Turn, and of the last
	waiting   int       // tokens of the Turns
	came      uint64    // calls so far, of both kinds
	promises  []promise // the open ones, by their instants
	promised  int       // tokens of the promises
	floor     uint64    // the least Bucket that bears the promises that are past
	owed      uint64    // units given back by which the Bucket was not lowered yet
	left      uint64    // the Bucket after the last method
	taken     uint64    // units that other calls took while some were owed
}

// A promise is open until its instant or until it is withdrawn.
type promise struct {
	first, last Promise // not the same if it stands for several
	at          time.Duration
	n           int
}

// maxPromises bounds the promises that are told apart. Beyond it, the two
// earliest count as one, at the later instant.
const maxPromises = 1 << 16

// A Turn is the place of a call that waits for tokens.
type Turn[W any] struct {
	Value W

	n     int
	order Promise
	gap   uint64        // units from the Bucket of the Turn before to its own
	place *list.Element // nil once it has left
}

// A Promise is a place among the calls that took tokens ahead of time. The zero
// Promise is before all others: that of a call that took tokens that were there.
type Promise uint64

// units returns what n tokens are in a Bucket of the Quota; at most
// math.MaxUint64.
func units(q *gcra.Quota, n int) uint64 {
	return math.MaxUint64 - uint64(q.Refund(math.MaxUint64, max(n, 0)))
}

// clock returns the units that have come in until now: the least Bucket that is
// not behind the clock.
func clock(q *gcra.Quota, now time.Duration) uint64 { return uint64(q.Level(now) - q.Level(0)) }

// due returns the instant when a Bucket is out of debt.
func due(q *gcra.Quota, b uint64) time.Duration { return ready(q, b, 0) }

// ready returns how long it takes from now until a bucket is out of debt.
func ready(q *gcra.Quota, b uint64, now time.Duration) time.Duration {
	_, wait, _ := q.Reserve(gcra.Bucket(b), now, 0, weir.Never)
	return wait
}

// convert turns units of one Quota into those of another. Move at the epoch does
// that, and adds what the bursts differ by.
func convert(x uint64, from, to *gcra.Quota) uint64 {
	grown := to.Burst() - from.Burst()
	if grown < 0 {
		return uint64(from.Move(gcra.Bucket(add(x, units(from, -grown))), 0, to))
	}
	x = uint64(from.Move(gcra.Bucket(x), 0, to))
	return x - min(units(to, grown), x)
}

// add returns the sum, at most math.MaxUint64.
func add(x, y uint64) uint64 { return x + min(y, math.MaxUint64-x) }

// Len returns the number of Turns: of the calls that wait.
func (l *Tokens[W]) Len() int { return l.list.Len() }

// Taken returns the number of tokens that are taken ahead of time: by the calls
// that wait and by open promises.
func (l *Tokens[W]) Taken(q *gcra.Quota, now time.Duration) int {
	l.close(q, now)
	return l.waiting + l.promised
}

// Join adds a call that waits for n tokens; b is the Bucket that Reserve has
// returned for it.
func (l *Tokens[W]) Join(q *gcra.Quota, b gcra.Bucket, n int, value W) *Turn[W] {
	l.note(uint64(q.Refund(b, n)))
	l.left = uint64(b)
	l.came++
	w := &Turn[W]{Value: value, n: n, order: Promise(l.came)}
	if l.Len() == 0 {
		l.base, l.end = 0, 0
	}
	w.place = l.list.PushBack(w)
	w.gap = max(uint64(b), l.end) - l.end
	l.end += w.gap
	l.waiting += n
	return w
}

// Promise notes that n tokens were reserved for the instant at; b is the Bucket
// that Reserve has returned.
func (l *Tokens[W]) Promise(q *gcra.Quota, now time.Duration, b gcra.Bucket, n int, at time.Duration) Promise {
	l.close(q, now)
	l.note(uint64(q.Refund(b, n)))
	l.left = uint64(b)
	l.came++
	if n == 0 {
		return Promise(l.came)
	}
	l.promised += n
	i := len(l.promises)
	for i > 0 && l.promises[i-1].at > at {
		i--
	}
	l.promises = slices.Insert(l.promises, i, promise{Promise(l.came), Promise(l.came), at, n})
	if p := l.promises; len(p) > maxPromises {
		p[1].n += p[0].n
		p[1].first = min(p[0].first, p[1].first)
		p[1].last = max(p[0].last, p[1].last)
		l.promises = p[1:]
	}
	return Promise(l.came)
}

// close ends the promises with an instant that is past.
func (l *Tokens[W]) close(q *gcra.Quota, now time.Duration) {
	i := 0
	for ; i < len(l.promises) && l.promises[i].at < now; i++ {
		l.promised -= l.promises[i].n
		l.floor = l.promises[i].bear(q, l.floor)
	}
	if l.promises = l.promises[i:]; len(l.promises) == 0 {
		l.owed = 0 // the last of them was kept: what is owed behind it is lost
	}
}

// bear returns the least Bucket after a promise, given that before it.
func (p *promise) bear(q *gcra.Quota, b uint64) uint64 { return p.load(q).on(b) }

func (p *promise) load(q *gcra.Quota) load {
	n := units(q, p.n)
	return load{n, add(clock(q, p.at), n)}
}

// A load is how promises raise the least Bucket b that bears them: to b + n, and to
// least at least. The zero load stands for no promise.
type load struct{ n, least uint64 }

func (f load) on(b uint64) uint64 { return max(add(b, f.n), f.least) }

func (f load) then(g load) load { return load{add(f.n, g.n), g.on(f.least)} }

// note finds out what calls took that are not in the order: the Bucket b is
// greater than it was left.
func (l *Tokens[W]) note(b uint64) {
	if l.owed == 0 {
		l.taken = 0
	} else if b > l.left {
		l.taken = add(l.taken, b-l.left)
	}
}

// withdraw takes n tokens off the open promise p, if it is one.
func (l *Tokens[W]) withdraw(p Promise, n int) {
	for i := range l.promises {
		o := &l.promises[i]
		if p < o.first || p > o.last {
			continue
		}
		n = min(n, o.n)
		l.promised -= n
		if o.n -= n; o.n == 0 {
			l.promises = slices.Delete(l.promises, i, i+1)
		}
		return
	}
}

// back returns by how many units to lower the Bucket b for n tokens given back
// at the place p, ahead of the Turn behind. The units that a promise keeps back
// are owed. Units that were spent, and now make the bucket flow over under the
// calls that wait, are lost.
func (l *Tokens[W]) back(q *gcra.Quota, now time.Duration, p Promise, n int, spent bool, b gcra.Bucket, behind *Turn[W]) uint64 {
	given := units(q, n)
	kept, least := uint64(0), max(l.floor, clock(q, now))
	for i := range l.promises {
		o := &l.promises[i]
		if o.last > p {
			kept = add(kept, units(q, o.n))
		}
		least = o.bear(q, least)
	}
	kept = min(kept, given)
	if spent && l.waiting > 0 || len(l.promises) > 0 || l.floor > clock(q, now) {
		least = add(least, units(q, l.waiting))
		kept = max(kept, given-min(given, uint64(b)-min(least, uint64(b))))
	}
	if len(l.promises) > 0 && behind != nil {
		kept = max(kept, given-min(given, l.room(q, now, behind)))
	}
	if len(l.promises) > 0 { // else the bucket flows over
		l.owed += kept
	}
	return min(given-kept, uint64(b)) // a lower Bucket is full too
}

// room returns by how many units the Turns from behind on can move forward, so that a
// full bucket is still enough for the promises that were made before each of them.
//
// The promises, which are in the order of their instants, are the leaves of a segment
// tree. Each is put in before the first Turn that came after it.
func (l *Tokens[W]) room(q *gcra.Quota, now time.Duration, behind *Turn[W]) uint64 {
	made := make([]int, len(l.promises)) // the promises in the order in which they were made
	for i := range made {
		made[i] = i
	}
	slices.SortFunc(made, func(i, j int) int { return cmp.Compare(l.promises[i].first, l.promises[j].first) })
	leaves := 1 << bits.Len(uint(len(made)-1))
	tree := make([]load, 2*leaves)
	room, at, past := uint64(math.MaxUint64), l.base, false
	for w := l.first(); w != nil; w = w.next() {
		at += w.gap
		if past = past || w == behind; !past {
			continue
		}
		for len(made) > 0 && l.promises[made[0]].first < w.order {
			i := leaves + made[0]
			tree[i] = l.promises[made[0]].load(q)
			for i /= 2; i > 0; i /= 2 {
				tree[i] = tree[2*i].then(tree[2*i+1])
			}
			made = made[1:]
		}
		least := add(tree[1].on(max(l.floor, clock(q, now))), units(q, w.n))
		room = min(room, at-min(least, at))
	}
	return room
}

func (l *Tokens[W]) first() *Turn[W] { return turn[W](l.list.Front()) }

func (w *Turn[W]) next() *Turn[W] { return turn[W](w.place.Next()) }

// turn returns the Turn in an element of the list, nil if there is none.
func turn[W any](e *list.Element) *Turn[W] {
	if e == nil {
		return nil
	}
	return e.Value.(*Turn[W])
}

// Next takes out and returns the first call that waits, if its turn has come.
func (l *Tokens[W]) Next(q *gcra.Quota, now time.Duration) (value W, ok bool) {
	w := l.first()
	if w == nil || ready(q, l.base+w.gap, now) > 0 {
		return value, false
	}
	l.base += w.gap
	l.remove(w)
	if len(l.promises) > 0 || l.floor > clock(q, now) {
		served := promise{at: due(q, l.base), n: w.n}
		l.floor = served.bear(q, l.floor)
	}
	return w.Value, true
}

// Deadline returns the instant of the next turn; weir.Never if there is none.
func (l *Tokens[W]) Deadline(q *gcra.Quota) time.Duration {
	if l.Len() == 0 {
		return weir.Never
	}
	return due(q, l.base+l.first().gap)
}

func (l *Tokens[W]) remove(w *Turn[W]) {
	l.list.Remove(w.place)
	w.place = nil
	l.waiting -= w.n
}

// Cancel takes out a call that waits, and returns by how much to lower the
// Bucket b; false if its turn has come before.
func (l *Tokens[W]) Cancel(q *gcra.Quota, now time.Duration, w *Turn[W], b gcra.Bucket) (down gcra.Bucket, ok bool) {
	if w.place == nil {
		return 0, false
	}
	l.close(q, now)
	l.note(uint64(b))
	behind := w.next()
	if behind == nil {
		l.end -= w.gap
	} else {
		behind.gap += w.gap
	}
	l.remove(w)
	units := l.back(q, now, w.order, w.n, false, b, behind)
	l.forward(q, behind, units)
	l.left = uint64(b) - min(units, uint64(b))
	return gcra.Bucket(units), true
}

// Withdraw gives n tokens back, of those taken with the promise p, or with the
// zero Promise if they were there. It returns by how much to lower the Bucket b.
func (l *Tokens[W]) Withdraw(q *gcra.Quota, now time.Duration, p Promise, n int, b gcra.Bucket) (down gcra.Bucket) {
	l.close(q, now)
	l.note(uint64(b))
	l.withdraw(p, n)
	behind := l.first()
	for behind != nil && behind.order < p {
		behind = behind.next()
	}
	given := l.back(q, now, p, n, true, b, behind)
	l.forward(q, behind, given)
	if len(l.promises) == 0 && l.owed > 0 {
		// Had it come back at once, the bucket might have been full since, and
		// what was taken then would be missing.
		least := add(add(max(l.floor, clock(q, now)), l.taken), units(q, l.waiting))
		left := uint64(b) - min(given, uint64(b))
		given += min(l.owed, left-min(least, left))
		l.owed = 0
		l.align(q, uint64(b)-min(given, uint64(b)))
	}
	l.left = uint64(b) - min(given, uint64(b))
	return gcra.Bucket(given)
}

// forward moves the calls from w on forward.
func (l *Tokens[W]) forward(q *gcra.Quota, w *Turn[W], by uint64) {
	if w == nil {
		return
	}
	// No call is moved to before the one ahead of it. The first has no call ahead
	// of it: the tokens that base stands for are taken.
	room := w.gap - min(units(q, w.n), w.gap)
	if w == l.first() {
		room += l.base
	}
	by = min(by, room)
	l.end -= by
	if w == l.first() {
		below := min(by, l.base)
		l.base -= below
		by -= below
	}
	w.gap -= by
}

// align places the calls that wait right behind each other, the last at b: no other
// call has taken tokens ahead of time.
func (l *Tokens[W]) align(q *gcra.Quota, b uint64) {
	all := uint64(0)
	for w := l.first(); w != nil; w = w.next() {
		w.gap = units(q, w.n)
		all += w.gap
	}
	l.base = b - min(all, b)
	l.end = l.base + all
}

// Delay moves all calls that wait backward by n tokens, which a Charge has taken.
func (l *Tokens[W]) Delay(q *gcra.Quota, n int) {
	by := units(q, n)
	l.left = add(l.left, by)
	l.taken = add(l.taken, by)
	if l.Len() > 0 {
		l.base += by
		l.end += by
	}
}

// Move puts the order under the Quota to: the calls that wait lack as many tokens
// as before. Promises keep their instants.
func (l *Tokens[W]) Move(q *gcra.Quota, now time.Duration, to *gcra.Quota) {
	if l.floor > 0 {
		l.floor = uint64(q.Move(gcra.Bucket(l.floor), now, to))
	}
	if l.owed > 0 && *q != gcra.Unlimited() && *to != gcra.Unlimited() {
		l.owed, l.taken = convert(l.owed, q, to), convert(l.taken, q, to)
		l.left = uint64(q.Move(gcra.Bucket(l.left), now, to))
	}
	was, is := l.base, uint64(0)
	l.base = 0
	for w := l.first(); w != nil; w = w.next() {
		was += w.gap
		b := uint64(q.Move(gcra.Bucket(was), now, to))
		w.gap = max(b, is) - is
		is += w.gap
	}
	l.end = is
}

// Drop takes out all calls that wait and for which late is true, given the
// instant of their turn (weir.Never: it does not come), and returns by how much
// to lower the Bucket b of all.
func (l *Tokens[W]) Drop(q *gcra.Quota, now time.Duration, b gcra.Bucket, late func(w *Turn[W], at time.Duration) bool) (down gcra.Bucket) {
	before := l.base
	for w := l.first(); w != nil; {
		next := w.next()
		if w == l.first() {
			before = l.base // Cancel may have moved it
		}
		if late(w, due(q, before+w.gap)) {
			more, _ := l.Cancel(q, now, w, b-down)
			down += more
		} else {
			before += w.gap
		}
		w = next
	}
	return down
}
