package httpclient

import (
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/priority"
)

// mark returns the request with the headers that tell the server its deadline and
// its priority. Headers that the caller has set stay. If it adds one, it returns a
// copy.
func (t *Transport) mark(r *http.Request) *http.Request {
	ctx, marked := r.Context(), r
	set := func(name, value string) {
		if marked == r {
			marked = r.WithContext(ctx)
			marked.Header = http.Header{}
			maps.Copy(marked.Header, r.Header)
		}
		marked.Header[name] = []string{value}
	}
	if name := t.cfg.Deadline; name != "" && r.Header[name] == nil {
		if end, ends := ctx.Deadline(); ends {
			set(name, strconv.FormatInt(max(time.Until(end).Milliseconds(), 1), 10))
		}
	}
	if name := t.cfg.Criticality; name != "" && r.Header[name] == nil {
		set(name, priority.Name(weir.ClassOf(ctx).Priority))
	}
	return marked
}
