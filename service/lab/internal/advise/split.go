package advise

// A part is a span of time in which the capacity does not change.
type part struct {
	ws  []window
	fit *fitted
}

// split divides windows where the capacity changes, and fits each part. It leaves out parts that are too
// short for a fit.
func split(ws []window, seed uint64) (parts []part) {
	for _, p := range divide(ws, mostChanges) {
		if f := fitWindows(p, seed); f != nil {
			parts = append(parts, part{p, f})
		}
	}
	return parts
}

const (
	mostChanges = 2  // levels of divide: at most four parts
	shortest    = 12 // windows of a part
	candidates  = 10 // instants that divide tries
)

// divide looks for the instant at which two fits are better than one by more than chance: the data of each
// side, under the law of the other, must be much less likely.
func divide(ws []window, levels int) [][]window {
	if levels == 0 || len(ws) < 2*shortest {
		return [][]window{ws}
	}
	whole := loosely(ws, nil)
	if whole == nil {
		return [][]window{ws}
	}
	step := max((len(ws)-2*shortest)/candidates, 1)
	best, at := whole.loss, 0
	noise := 1.0
	for k := shortest; k <= len(ws)-shortest; k += step {
		left, right := loosely(ws[:k], whole.p), loosely(ws[k:], whole.p)
		if left == nil || right == nil {
			continue
		}
		if loss := left.loss + right.loss; loss < best {
			best, at = loss, k
			noise = max(left.noise, right.noise)
		}
	}
	// Each side has its own parameters, and the instant is one more; several were tried.
	if at == 0 || (whole.loss-best)/noise < evident || best > whole.loss*0.8 {
		return [][]window{ws}
	}
	return append(divide(ws[:at], levels-1), divide(ws[at:], levels-1)...)
}

// evident is the gain of likelihood that a change needs.
const evident = 25

// A loose is a fit that is good enough for a comparison.
type loose struct {
	p           []float64
	loss, noise float64
}

// loosely fits the most general law, from some parameters, if they are not nil.
func loosely(ws []window, from []float64) *loose {
	pts := points(merged(ws), 0)
	if len(pts) < fewest/2 {
		return nil
	}
	l := &laws[len(laws)-1]
	starts := [][]float64{from}
	if from == nil {
		starts = l.starts(pts)
	}
	p, loss := l.fit(pts, starts)
	if p == nil {
		return nil
	}
	f := &fitted{law: l, p: p, model: l.model(p), points: pts}
	_, f.most = span(pts)
	return &loose{p, loss, f.variation()}
}
