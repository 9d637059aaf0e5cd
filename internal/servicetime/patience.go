package servicetime

import "time"

// Patience learns how long callers wait for an answer before they leave. It knows callers
// that were still there at an age, callers that left at an age, and callers that had left
// by an age: current status data, from which a caller tells that it would still have been
// there earlier, or that it would have been gone later.
//
// Some callers leave for reasons of their own: a user types on, or another replica was
// quicker. So an age counts only if nearly all callers are gone by then, and few are still
// there. Callers that leave together at different ages, such as those of a client that ends, have
// one reason and count as one, and callers that were there then and are gone by the end of their
// work do not count. A caller that leaves as soon as it has come does not count either: its client
// had left before. Recent callers count more. An estimate that is too short refutes itself, because
// work that is admitted at once succeeds at any age.
type Patience struct {
	most   time.Duration
	stale  bool    // most is to be found again
	proven bool    // several had left by most since it was last 0
	some   bool    // a caller has left
	first  int     // no caller has left in a bucket below it
	all    float32 // callers, in all buckets
	crowd  crowd   // the latest

	buckets *[bucketCount]patienceBucket // nil until a caller leaves
}

type patienceBucket struct {
	stayed    float32 // callers that were there at an age in this bucket
	left      float32 // callers that left in it
	gone      float32 // callers that had left by an age in it
	sum, aged float32 // the ages of left and gone, and how many
}

// A crowd is callers that left together.
type crowd struct {
	began     time.Duration
	age       time.Duration // of the first of them
	more, sum float32       // the callers that followed it in its bucket, and their ages
	several   bool          // they have several ages
}

const (
	// Callers that leave within it are a crowd, and a caller that leaves within it after it has come
	// had no client.
	together = 2 * time.Millisecond

	enough     = 3  // callers that have left, without which nothing is known
	several    = 8  // such callers, without which nothing is Proven
	nearly     = 13 // callers that have left for each that is there
	patienceOf = 64 // callers at which all counts are halved
)

// Left learns that a caller left at an age. Calls of Left and Gone follow in the order of now.
func (p *Patience) Left(now, age time.Duration) {
	switch c := &p.crowd; {
	case age < together:
		return
	case !p.some || now-c.began > together:
		*c = crowd{began: now, age: age}
	case c.several:
		return
	case bucketOf(age) == bucketOf(c.age):
		c.more++
		c.sum += float32(age)
	default:
		b := &p.buckets[bucketOf(c.age)]
		b.left -= c.more
		b.aged -= c.more
		b.sum -= c.sum
		p.all -= c.more
		c.several, p.stale = true, true
		return
	}
	p.buckets[p.leaves(age)].left++
	p.added()
}

// Gone learns that a caller had left by the age that it would have now.
func (p *Patience) Gone(now, age time.Duration) {
	if p.crowd.several && now-age <= p.crowd.began {
		return
	}
	b := p.leaves(age)
	p.buckets[b].gone++
	p.added()
}

func (p *Patience) leaves(age time.Duration) (bucket int) {
	if p.buckets == nil {
		p.buckets = new([bucketCount]patienceBucket)
	}
	b := bucketOf(age)
	if !p.some || b < p.first {
		p.some, p.first = true, b
	}
	p.buckets[b].sum += float32(age)
	p.buckets[b].aged++
	return b
}

// Stayed learns that a caller was there at an age.
func (p *Patience) Stayed(age time.Duration) {
	if !p.some {
		return
	}
	b := bucketOf(age)
	if x := p.buckets[b]; x.aged*float32(age) < x.sum {
		b-- // those of this bucket left later
	}
	if b < p.first {
		return // where no caller leaves
	}
	p.buckets[b].stayed++
	p.added()
}

func (p *Patience) added() {
	p.stale = true
	if p.all++; p.all <= patienceOf {
		return
	}
	p.all, p.some = 0, false
	p.crowd.more /= 2
	p.crowd.sum /= 2
	for i := range p.buckets {
		b := &p.buckets[i]
		b.stayed /= 2
		b.left /= 2
		b.gone /= 2
		b.sum /= 2
		if b.aged /= 2; b.aged < traces {
			b.left, b.gone, b.sum, b.aged = 0, 0, 0, 0
		} else if !p.some {
			p.some, p.first = true, i
		}
		if b.stayed < traces || !p.some {
			b.stayed = 0
		}
		p.all += b.stayed + b.left + b.gone
	}
}

// Most returns the age by which 13 of 14 callers have left; 0 if that is not known. It is
// the mean age of those in its bucket: if all leave at one age, it is exact. A few callers
// that have left are enough for it.
func (p *Patience) Most() time.Duration {
	if p.stale {
		p.find()
	}
	return p.most
}

// Proven is Most if it was hardly an accident once since it was last unknown: several callers had
// left by that age. Otherwise it is 0. What is learnt about load from callers that leave needs
// more of them than the refusal of a request.
func (p *Patience) Proven() time.Duration {
	if most := p.Most(); p.proven {
		return most
	}
	return 0
}

func (p *Patience) find() {
	p.stale, p.most = false, 0
	var there, gone float32 // callers that were there at the bucket's age or later, and that had left by then
	for i := p.first; i < bucketCount && p.some; i++ {
		there += p.buckets[i].stayed + p.buckets[i].left
	}
	for i := p.first; i < bucketCount && p.some; i++ {
		b := &p.buckets[i]
		there -= b.left
		gone += b.left + b.gone
		if b.aged > 0 && gone >= enough && gone >= nearly*there {
			p.most = time.Duration(b.sum / b.aged)
			p.proven = p.proven || gone >= several
			return
		}
		there -= b.stayed
	}
	p.proven = false
}
