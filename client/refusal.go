package client

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// How long, and of how many keys, refusals are remembered.
const (
	refusedFor = time.Second
	maxRefused = 1 << 12
)

// refusals are of keys that the server does not accept. Their callers are told at
// once, and so are in nobody's batch.
type refusals map[string]refusal

type refusal struct {
	err   error
	until time.Time // when to ask again
}

// find returns what was said of a key a moment ago.
func (r refusals) find(key string) error {
	said, ok := r[key]
	if !ok {
		return nil
	}
	if !time.Now().Before(said.until) {
		delete(r, key)
		return nil
	}
	return said.err
}

// put remembers a refusal: instead of any other one, if there are too many.
func (r refusals) put(key string, err error) {
	for other := range r {
		if len(r) < maxRefused {
			break
		}
		delete(r, other)
	}
	r[key] = refusal{err, time.Now().Add(refusedFor)}
}

// divide goes on after the refusal of a request, of which the server has decided
// nothing. Who has asked for the key to blame hears of it, and the others are asked
// for again, in two requests at once: nobody's ask is all the others' trouble. That
// makes two requests more for each key to blame, if the server names it, as it does
// if it is forbidden; if it does not, fewer than two for each key.
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

// blame returns the key for whose sake a request was refused, if that is certain.
func blame(asks []*ask, refused *StatusError) (key string, known bool) {
	if slices.ContainsFunc(asks, func(a *ask) bool { return a.key == refused.key }) {
		return refused.key, true
	}
	key = asks[0].key
	alone := !slices.ContainsFunc(asks, func(a *ask) bool { return a.key != key })
	return key, len(asks) == 1 || alone && refused.Status != http.StatusRequestEntityTooLarge
}
