package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/wirejson/leafjson"
)

// An exchange is an exchange of a leaf. It is reused.
type exchange struct {
	batch   // its body
	x       decider.LeafExchange
	got     decider.LeafAnswer
	refused []refusal // in the order of the reports
}

// A refusal is the fault of a report about a key that the token does not allow.
type refusal struct {
	at  int // index of the report
	key string
	why string
}

const (
	// maxReports bounds the reports of an exchange.
	maxReports = 10_000
	// maxLeafName bounds the name of a leaf, in bytes.
	maxLeafName = 256
	// reportBytes is the memory of a report, besides the body, until it is answered.
	reportBytes = 256
	// maxKeptExchange bounds the body of an exchange of which the memory is kept for the next: leaves
	// exchange again and again.
	maxKeptExchange = 1 << 20
)

var (
	manyReports = &fault{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("an exchange has at most %d reports", maxReports)}
	manyLeaves  = &fault{status: http.StatusServiceUnavailable, text: decider.ErrLeaves.Error(), retryAfter: 10 * time.Second}
	onlyJSON    = &fault{status: http.StatusUnsupportedMediaType, text: "the Content-Type must be application/json"}
)

// keep clears what belongs to the request, and reports whether the buffers are small enough
// for reuse.
func (e *exchange) keep() bool {
	clear(e.x.Reports)
	clear(e.got.Assignments)
	clear(e.got.Watch)
	clear(e.refused)
	e.x.Leaf, e.x.Tenant, e.refused = "", "", e.refused[:0]
	e.body = e.body[:0]
	return cap(e.body) <= maxKeptExchange && cap(e.x.Reports) <= maxReports && cap(e.got.Watch) <= maxReports
}

// assign answers the exchange of a leaf. A key that the token does not allow gets an
// assignment with an error.
func (c *call) assign() *fault {
	someKeys := c.authorize(token.Decide, "") // nil if the token allows all keys
	if someKeys != nil && someKeys.status == http.StatusUnauthorized {
		return someKeys // without reading the body
	}
	e := c.api.exchanges.Get().(*exchange)
	defer func() {
		c.api.limits[connlimit.Bodies].Leave(c.client, e.held)
		e.held = 0
		if e.keep() {
			c.api.exchanges.Put(e)
		}
	}()
	if f := c.readExchange(e); f != nil {
		return f
	}
	if !c.hold(&e.batch, int64(len(e.x.Reports))*reportBytes) {
		return busy
	}
	if f := c.refuseKeys(e); f != nil {
		return f
	}
	if c.api.cfg.Client != nil {
		name := c.api.cfg.Client(c.r)
		if e.x.Leaf = name + "\x00" + e.x.Leaf; someKeys != nil {
			e.x.Tenant = name
		}
	}
	if err := c.api.decider.Exchange(c.r.Context(), &e.x, &e.got); errors.Is(err, decider.ErrLeaves) {
		return manyLeaves
	} else if err != nil {
		return c.failed()
	}
	e.got.Resync = e.got.NeedsResync(&e.x)
	c.sendAnswer(e)
	return nil
}

// readExchange reads the body.
func (c *call) readExchange(e *exchange) *fault {
	switch lines, f := c.bodyType(); {
	case f == otherType, lines:
		return onlyJSON
	case f != nil:
		return f
	}
	if f := c.receive(&e.batch); f != nil {
		return f
	}
	text := string(e.body)
	most := leafjson.Limits{Reports: maxReports, Key: c.api.cfg.MaxKey, Leaf: maxLeafName}
	switch err := leafjson.Read(text, &e.x.Exchange, most); err {
	case nil:
		return nil
	case leafjson.ErrMany:
		return manyReports
	default:
		return bad("cannot read the exchange: %v", err)
	}
}

// refuseKeys removes the reports about keys that the token does not allow.
func (c *call) refuseKeys(e *exchange) *fault {
	kept := e.x.Reports[:0]
	for i, r := range e.x.Reports {
		f := c.authorize(token.Decide, r.Key)
		switch {
		case f == nil:
			kept = append(kept, r)
		case f.status == http.StatusUnauthorized:
			return f
		default:
			e.refused = append(e.refused, refusal{i, r.Key, f.text})
		}
	}
	clear(e.x.Reports[len(kept):])
	e.x.Reports = kept
	return nil
}

// sendAnswer answers with the assignments, in the order of the reports.
func (c *call) sendAnswer(e *exchange) {
	h := c.w.Header()
	h["Content-Type"] = jsonType
	out, written := leafjson.AppendStart(c.buf[:0], &e.got.Answer), false
	assigned, refused := e.got.Assignments, e.refused
	for i := 0; len(assigned)+len(refused) > 0; i++ {
		if len(out) > chunk {
			_, _ = c.w.Write(out) // a client that is gone needs no answer
			out, written = out[:0], true
		}
		if i > 0 {
			out = append(out, ',')
		}
		if len(refused) > 0 && refused[0].at == i {
			out = leafjson.AppendAssignment(out, &leaf.Assignment{Key: refused[0].key, Error: refused[0].why})
			refused = refused[1:]
			continue
		}
		out = leafjson.AppendAssignment(out, &assigned[0])
		assigned = assigned[1:]
	}
	out = append(out, leafjson.End...)
	if !written {
		h["Content-Length"] = []string{strconv.Itoa(len(out))}
	}
	_, _ = c.w.Write(out)
	c.buf = out
}
