package limit

import (
	"fmt"
	"os"
	"strconv"
)

func (a *Auto) Debug() string {
	return fmt.Sprintf("base %.4f known %v ref %.4f n %d trial %d start %v step %.2f rest %d need %d bg %.3f before %.0f typical %v healthy %v", a.base, a.known, a.ref.log(), a.ref.n, a.trial, a.starting, a.step, a.rest, a.need(a.trialled()), a.background, a.episode.before, a.typical, a.healthy)
}

var (
	common   = knob("common", 32)
	raises   = knob("raises", 10)
	crowded  = knob("crowded", 0.42)
	queued   = knob("queued", 0.7)
	stepCap  = knob("stepcap", 0.25)
	optional = knob("optional", 1)
)

func knob(name string, x float64) float64 {
	if s := os.Getenv("K_" + name); s != "" {
		x, _ = strconv.ParseFloat(s, 64)
	}
	return x
}

var slower = knob("slower", 0.3)

var (
	coarser  = knob("coarser", 1)
	trips    = knob("trips", 8)
	doubts   = knob("doubts", 3)
	doubtAll = knob("doubtall", 1)
)

var unprovenAll = knob("unproven", 1)

var common2 = knob("common2", 16)

var drainLong = knob("drainlong", 3)

var needProof = knob("needproof", 1)
var doubtProves = knob("doubtproves", 1)

var mostBase = int(knob("mostbase", 200))

var fairRaise = knob("fairraise", 0.5)
var fairCut = knob("faircut", 0.5)

var pool = knob("pool", 4)
