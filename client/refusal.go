package client

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// The time for which refusals are kept, and their number.
const (
	refusedFor = time.Second
	maxRefused = 1 << 12
)

// refusals are the recent errors of keys that the server does not accept. Calls with
// such a key fail at once, so that they do not fail the batches of others.
type refusals map[string]refusal

type refusal struct {
	err   error
	until time.Time // when to ask again
}

// find returns the recent error of a key, nil if there is none.
func (r refusals) find(key string) error {
	found, ok := r[key]
	if !ok {
		return nil
	}
	if !time.Now().Before(found.until) {
		delete(r, key)
		return nil
	}
	return found.err
}

// put keeps a refusal, and drops any other one if there are too many.
func (r refusals) put(key string, err error) {
	for other := range r {
		if len(r) < maxRefused {
			break
		}
		delete(r, other)
	}
	r[key] = refusal{err, time.Now().Add(refusedFor)}
}

// divide handles a batch that the server has refused as a whole because of one key.
// The asks for that key get the error. The other asks are sent again, in two
// requests at once, so that one key does not fail the asks for others. That costs two
// more requests per such key if the server names it, as it does if the key is
// forbidden, and fewer than two per key of the batch otherwise.
func (c *Client) divide(asks []*ask, refused *StatusError) {
	key, known := blame(asks, refused)
	if known {
		c.batcher.mu.Lock()
		c.batcher.refused.put(key, refused)
		c.batcher.mu.Unlock()
	}
	var others []*ask
	for _, a := range asks {
		if known && a.key == key {
			c.answer(a, reply{err: refused})
		} else {
			others = append(others, a)
		}
	}
	slices.SortStableFunc(others, func(a, b *ask) int { return strings.Compare(a.key, b.key) }) // equal ones stay together
	var parts sync.WaitGroup
	for part := range slices.Chunk(others, max((len(others)+1)/2, 1)) {
		parts.Go(func() { c.send(part) })
	}
	parts.Wait()
}

// blame returns the key that caused the refusal of a batch, if it is certain.
func blame(asks []*ask, refused *StatusError) (key string, known bool) {
	if slices.ContainsFunc(asks, func(a *ask) bool { return a.key == refused.key }) {
		return refused.key, true
	}
	key = asks[0].key
	alone := !slices.ContainsFunc(asks, func(a *ask) bool { return a.key != key })
	return key, len(asks) == 1 || alone && refused.Status != http.StatusRequestEntityTooLarge
}
