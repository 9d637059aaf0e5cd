// Package floors checks the layout of ARCHITECTURE.md on the source itself:
// imports go downwards only, and the pure floors stay pure.
package floors

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Module is the path that our own imports begin with.
const Module = "github.com/weir-go/weir"

// A floor is where a package stands. Higher ones import lower ones.
type floor int

const (
	words   floor = iota // F0
	pure                 // F1
	shells               // F2
	edges                // F3
	modules              // F4: library packages that need third-party modules
	core                 // F5: the decisions of the service, without a protocol
	service              // F6
	lab                  // F7
	binary               // F8
)

// packages maps each package of the library and of the service to its floor. A
// package that is missing here is an error.
var packages = map[string]floor{
	"":                                words,
	"gcra":                            pure,
	"internal/window":                 pure,
	"internal/usage":                  pure,
	"internal/leaf":                   pure,
	"internal/leafsession":            pure,
	"internal/leafset":                shells,
	"limit":                           pure,
	"internal/codel":                  pure,
	"internal/autolimit":              pure,
	"internal/elasticity":             pure,
	"internal/servicetime":            pure,
	"internal/gate":                   pure,
	"internal/adaptive":               pure,
	"internal/pacing":                 pure,
	"internal/priority":               pure,
	"internal/shedder":                pure,
	"internal/ratelimitfield":         pure,
	"internal/redisscript":            pure,
	"internal/rendezvous":             pure,
	"service/lab/internal/pace":       pure,
	"service/lab/internal/trace":      pure,
	"service/lab/internal/dist":       pure,
	"service/lab/internal/windowed":   pure,
	"service/lab/internal/leasemodel": pure,
	"service/internal/table":          words,
	"rate":                            shells,
	"inflight":                        shells,
	"codel":                           shells,
	"flight":                          shells,
	"cache":                           shells,
	"keyed":                           shells,
	"shape":                           shells,
	"throttle":                        shells,
	"recording":                       shells,
	"internal/blockfile":              shells,
	"internal/keyedtable":             shells,
	"internal/pagetable":              pure,
	"internal/prefetch":               words,
	"internal/heap":                   words,
	"internal/outcome":                words,
	"internal/neterr":                 words,
	"internal/retrystep":              words,
	"internal/classkey":               words,
	"internal/waitq":                  shells,
	"internal/wrapped":                shells,
	"internal/siphash":                shells,
	"internal/slot":                   shells,
	"internal/sketch":                 pure,
	"internal/stripe":                 shells,
	"internal/topk":                   shells,
	"internal/pathshape":              shells,
	"httplimit":                       edges,
	"httpclient":                      edges,
	"httpcache":                       edges,
	"client":                          edges,
	"pressure":                        edges,
	"internal/admission":              edges,
	"internal/caller":                 edges,
	"internal/httpheader":             edges,
	"internal/loadsign":               edges,
	"internal/bodytime":               edges,
	"internal/longlived":              edges,
	"internal/measure":                edges,
	"internal/observe":                edges,
	"internal/pipenet":                edges,
	"internal/problem":                edges,
	"internal/circuit":                shells,
	"internal/redislink":              shells,
	"internal/share":                  shells,
	"internal/outgoing":               shells,
	"grpclimit":                       modules,
	"metric":                          modules,
	"metric/grpcmetric":               modules,
	"metric/internal/collector":       modules,
	"weirotel":                        modules,
	"weirotel/grpcotel":               modules,
	"weirotel/internal/instrument":    modules,
	"weirotel/internal/decision":      modules,
	"redislimit":                      modules,
	"redislimit/redis_rate":           modules,
	"router/weirchi":                  modules,
	"router/weirecho":                 modules,
	"router/weirecho4":                modules,
	"router/weirgin":                  modules,
	"router/weirgorilla":              modules,
	"service/internal/config":         core,
	"service/internal/filedoc":        words,
	"service/internal/bytesize":       words,
	"service/internal/spelling":       words,
	"service/internal/match":          core,
	"service/internal/descriptor":     core,
	"service/internal/server":         core,
	"service/internal/strictyaml":     core,
	"service/internal/inputfile":      core,
	"service/internal/rulefile":       core,
	"service/internal/transport/wirejson/batchjson": core,
	"service/internal/transport/wirejson/jsonscan":  core,
	"service/internal/transport/wirejson/jsontext":  words,
	"service/internal/transport/wirejson/leafjson":  core,
	"service/internal/server/assign":                core,
	"service/internal/server/clock":                 core,
	"service/internal/server/away":                  core,
	"service/internal/server/counts":                core,
	"service/internal/server/memory":                core,
	"service/internal/server/node":                  core,
	"service/internal/server/store":                 core,
	"service/internal/server/tier":                  core,
	"service/internal/server/snapshot":              core,
	"service/internal/server/snapshot/handover":     core,
	"service/internal/server/decidertest":           service,
	"service/internal/server/decider":               core,
	"service/internal/server/grant":                 core,
	"service/internal/server/lease":                 core,
	"service/internal/server/lease/unknown":         core,
	"service/internal/allocator":                    pure,
	"service/internal/balance":                      pure,
	"service/internal/server/quota":                 core,
	"service/internal/server/rules":                 core,
	"service/internal/server/snapshot/state":        core,
	"service/internal/server/waiting":               core,
	"service/internal/server/adminapi":              service,
	"service/internal/operator":                     service,
	"service/internal/blackbox":                     service,
	"service/internal/shedding":                     service,
	"service/internal/server/record":                core,
	"service/internal/proxy/proxypage":              service,
	"service/internal/proxy/clients":                service,
	"service/internal/proxy/origins":                service,
	"service/internal/proxy/forward":                service,
	"service/internal/proxy/relay":                  service,
	"service/internal/proxy/plan":                   service,
	"service/internal/proxy/condition":              service,
	"service/internal/proxy/limits":                 service,
	"service/internal/proxy/tally":                  service,
	"service/internal/transport/httpapi":            service,
	"service/internal/transport/atmost":             service,
	"service/internal/transport/httpapi/gateway":    service,
	"service/internal/transport/httpapi/query":      service,
	"service/internal/transport/httpapi/ratefield":  service,
	"service/internal/transport/grpcapi":            service,
	"service/internal/transport/respapi":            service,
	"service/internal/transport/rlqsapi":            service,
	"service/internal/transport/weirapi":            service,
	"service/internal/transport/weirapi/weirv1":     service,
	"service/internal/server/token":                 service,
	"service/internal/redisstore":                   service,
	"service/internal/peer":                         service,
	"service/internal/peer/serve":                   service,
	"service/internal/peer/wire":                    service,
	"service/internal/upstream":                     service,
	"service/internal/mismatch":                     service,
	"service/internal/connlimit":                    service,
	"service/internal/certfile":                     service,
	"service/internal/heapfloor":                    service,
	"service/internal/proxyheader":                  service,
	"service/internal/eventloop":                    service,
	"service/internal/httpserve":                    service,
	"service/internal/h2inline":                     service,
	"service/internal/h2inline/fieldblock":          service,
	"service/internal/h2inline/message":             service,
	"service/internal/http1client":                  service,
	"service/internal/logqueue":                     service,
	"service/internal/otlp":                         service,
	"service/internal/terminal":                     service,
	"service/internal/unixsocket":                   service,
	"service/internal/supervisor":                   service,
	"service/internal/daemon":                       service,
	"service/internal/daemon/leaflinks":             service,
	"service/internal/daemon/statefile":             service,
	"service/internal/ring":                         service,
	"service/internal/ring/census":                  pure,
	"service/internal/ring/handover":                core,
	"service/internal/ring/leaves":                  core,
	"service/internal/ring/local":                   core,
	"service/internal/discover":                     service,
	"service/internal/rulecheck":                    service,
	"service/internal/decisionlog":                  core,
	"service/internal/throughput":                   service,
	"service/internal/top":                          service,
	"service/internal/servermetric":                 service,
	"service/internal/proxy":                        service,
	"service/internal/proxyrule":                    service,
	"service/internal/routeset":                     service,
	"service/internal/settings":                     service,
	"service/internal/web":                          service,
	"service/internal/cli":                          service,
	"service/internal/cli/clitest":                  service,
	"service/lab/internal/arena":                    lab,
	"service/lab/internal/demo":                     lab,
	"service/lab/internal/load":                     lab,
	"service/lab/internal/origin":                   lab,
	"service/lab/internal/report":                   lab,
	"service/lab/internal/page":                     lab,
	"service/lab/internal/advise":                   lab,
	"service/lab/internal/recorded":                 lab,
	"service/lab/internal/replay":                   lab,
	"service/lab/internal/incident":                 lab,
	"service/lab/internal/station":                  lab,
	"service/lab/internal/changepoint":              lab,
	"service/lab/internal/convert":                  lab,
	"service/lab/internal/figure":                   lab,
	"service/lab/internal/picture":                  lab,
	"service/lab/internal/plot":                     lab,
	"service/lab/internal/scenario":                 lab,
	"service/lab/internal/fleet":                    lab,
	"service/lab/internal/sim":                      lab,
	"service/lab/internal/sla":                      lab,
	"service/lab/internal/web":                      lab,
	"service/lab/internal/arena/contender":          lab,
	"service/lab/scenarios":                         lab,
	"service/internal/browser":                      lab,
	"service/internal/web/webtest":                  lab,
	"service/internal/transport/respapi/resptest":   service,
	"service/internal/transport/respapi/respwire":   words,
	"service/internal/filedoc/filedoctest":          service,
	"service/internal/clienttest":                   lab,
	"service/internal/external":                     lab,
	"weirotel/internal/oteltest":                    lab,
	"internal/floors":                               lab,
	"internal/docs":                                 lab,
	"internal/routercheck":                          lab,
	"internal/pagetest":                             lab,
	"internal/redistest":                            lab,
	"internal/pressuretest":                         lab,
	"internal/wrappedtest":                          lab,
	"internal/testrig":                              lab,
	"service/cmd/weir":                              binary,
	"service/lab/cmd/weirlab":                       binary,
	"service/lab/cmd/playground":                    binary,
}

// sideways are the imports within a floor, or from the lab to the edges, that are
// allowed all the same.
var sideways = map[string][]string{
	"internal/gate":                 {"limit", "internal/codel", "internal/servicetime"},
	"internal/outcome":              {""},
	"":                              {"internal/classkey", "internal/neterr", "internal/retrystep"},
	"limit":                         {"internal/autolimit"},
	"internal/autolimit":            {"internal/elasticity"},
	"cache":                         {"flight", "internal/sketch", "internal/stripe"},
	"service/lab/internal/windowed": {"limit"},
	"codel":                         {"inflight"},
	"internal/ratelimitfield":       {"gcra"},
	"internal/redisscript":          {"gcra", "internal/window"},
	"internal/redislink":            {"internal/circuit", "internal/waitq"},
	"internal/leafset":              {"internal/waitq"},
	"internal/leaf":                 {"internal/usage"},
	"internal/leafsession":          {"internal/leaf"},
	"internal/pacing":               {"internal/ratelimitfield"},
	"internal/rendezvous":           {"internal/siphash", "internal/slot"},
	"internal/testrig":              {"internal/pipenet"},
	"internal/routercheck":          {"httplimit"},
	"internal/wrappedtest":          {"httplimit", "internal/testrig"},
	"internal/outgoing":             {"internal/waitq"},
	"throttle":                      {"internal/waitq"},
	"rate":                          {"internal/waitq"},
	"inflight":                      {"internal/waitq", "recording"},
	"recording":                     {"internal/blockfile", "internal/stripe"},
	"keyed":                         {"internal/keyedtable", "internal/topk"},
	"internal/pagetable":            {"gcra", "internal/window"},
	"internal/keyedtable":           {"internal/waitq", "internal/siphash", "internal/slot", "internal/topk"},
	"internal/slot":                 {"internal/siphash"},
	"client":                        {"internal/httpheader"},
	"internal/share":                {"keyed"},
	"httplimit":                     {"internal/bodytime", "internal/loadsign", "internal/longlived", "internal/problem", "internal/observe", "internal/admission", "internal/caller", "internal/httpheader", "internal/ratelimitfield", "internal/pathshape"},
	"httpclient":                    {"internal/caller", "internal/httpheader", "internal/loadsign", "internal/problem"},
	"httpcache":                     {"internal/observe", "internal/httpheader", "internal/problem", "httplimit"},
	"internal/observe":              {"internal/loadsign", "internal/longlived"},
	"service/internal/config":       {"service/internal/bytesize", "service/internal/descriptor", "service/internal/inputfile", "service/internal/match", "service/internal/rulefile", "service/internal/strictyaml"},
	"service/internal/rulefile":     {"service/internal/inputfile"},
	"service/internal/match":        {"service/internal/descriptor"},
	"service/internal/server": {
		"service/internal/allocator", "service/internal/config", "service/internal/server/assign", "service/internal/server/away", "service/internal/server/clock", "service/internal/server/counts",
		"service/internal/server/decider", "service/internal/server/grant", "service/internal/server/lease", "service/internal/server/snapshot/handover", "service/internal/server/memory", "service/internal/server/node",
		"service/internal/server/quota", "service/internal/server/record", "service/internal/server/rules", "service/internal/server/snapshot", "service/internal/server/store", "service/internal/server/tier",
		"service/internal/server/waiting",
	},
	// What shares limits out knows neither what decides nor another node.
	"service/internal/server/assign": {
		"service/internal/allocator", "service/internal/config", "service/internal/server/clock", "service/internal/server/decider", "service/internal/server/memory", "service/internal/server/rules",
		"service/internal/server/snapshot/state",
	},
	// The seam knows no implementation of it, and a node does not know where its counts are.
	"service/internal/server/counts": {"service/internal/config", "service/internal/server/clock", "service/internal/server/decider", "service/internal/server/quota", "service/internal/server/rules", "service/internal/server/waiting"},
	"service/internal/server/memory": {
		"service/internal/bytesize", "service/internal/config", "service/internal/server/clock", "service/internal/server/counts", "service/internal/server/decider", "service/internal/server/grant",
		"service/internal/server/quota", "service/internal/server/rules", "service/internal/server/waiting",
	},
	"service/internal/server/away": {"service/internal/config", "service/internal/server/counts", "service/internal/server/decider", "service/internal/server/lease", "service/internal/server/memory", "service/internal/server/rules"},
	"service/internal/server/store": {
		"service/internal/config", "service/internal/server/away", "service/internal/server/clock", "service/internal/server/counts", "service/internal/server/decider", "service/internal/server/grant",
		"service/internal/server/lease", "service/internal/server/memory", "service/internal/server/quota", "service/internal/server/rules", "service/internal/server/waiting",
	},
	"service/internal/server/tier": {
		"service/internal/config", "service/internal/server/away", "service/internal/server/clock", "service/internal/server/counts", "service/internal/server/decider", "service/internal/server/lease",
		"service/internal/server/memory", "service/internal/server/rules", "service/internal/server/waiting",
	},
	"service/internal/server/node": {
		"service/internal/config", "service/internal/server/clock", "service/internal/server/counts", "service/internal/server/decider", "service/internal/server/lease", "service/internal/server/record",
		"service/internal/server/rules", "service/internal/server/waiting",
	},
	// What decides does not know what saves it.
	"service/internal/server/snapshot": {
		"service/internal/allocator", "service/internal/config", "service/internal/server/clock", "service/internal/server/decider", "service/internal/server/lease", "service/internal/server/memory",
		"service/internal/server/rules", "service/internal/server/snapshot/handover", "service/internal/server/snapshot/state",
	},
	"service/internal/server/snapshot/handover":     {"service/internal/config", "service/internal/server/grant", "service/internal/server/lease"},
	"service/internal/transport/wirejson/jsonscan":  {"service/internal/server/decider"},
	"service/internal/transport/wirejson/batchjson": {"service/internal/server/decider", "service/internal/transport/wirejson/jsonscan"},
	"service/internal/transport/wirejson/leafjson":  {"service/internal/server/decider", "service/internal/transport/wirejson/jsonscan"},
	"service/internal/transport/httpapi": {
		"service/internal/connlimit", "service/internal/server/token", "service/internal/transport/atmost", "service/internal/transport/httpapi/gateway", "service/internal/transport/httpapi/query", "service/internal/transport/httpapi/ratefield",
	},
	"service/internal/transport/grpcapi":          {"service/internal/connlimit", "service/internal/server/token"},
	"service/internal/transport/respapi":          {"service/internal/eventloop", "service/internal/server/token"},
	"service/internal/transport/respapi/resptest": {"service/internal/eventloop", "service/internal/transport/respapi", "service/internal/server/token"},
	"service/internal/transport/rlqsapi":          {"service/internal/descriptor", "service/internal/server/token"},
	"service/internal/transport/weirapi":          {"service/internal/connlimit", "service/internal/server/token", "service/internal/transport/atmost", "service/internal/transport/weirapi/weirv1"},
	"service/internal/server/grant":               {"service/internal/server/clock", "service/internal/server/decider"},
	"service/internal/server/rules":               {"service/internal/config", "service/internal/descriptor", "service/internal/match", "service/internal/server/decider", "service/internal/server/waiting"},
	"service/internal/server/quota":               {"service/internal/config", "service/internal/server/clock", "service/internal/server/waiting"},
	"service/internal/server/lease": {
		"service/internal/config", "service/internal/server/clock", "service/internal/server/decider", "service/internal/server/lease/unknown", "service/internal/server/record", "service/internal/server/rules",
		"service/internal/server/waiting",
	},
	"service/internal/server/snapshot/state": {"service/internal/config", "service/internal/server/grant", "service/internal/server/lease", "service/internal/server/rules"},
	"service/internal/server/adminapi":       {"service/internal/httpserve", "service/internal/operator", "service/internal/ring", "service/internal/server/token"},
	"service/internal/blackbox":              {"service/internal/operator"},
	"service/internal/shedding":              {"service/internal/operator"},
	"service/internal/operator":              {"service/internal/connlimit", "service/internal/httpserve", "service/internal/server/token", "service/internal/web"},
	"service/internal/otlp":                  {"service/internal/logqueue"},
	"service/internal/proxy/proxypage": {
		"service/internal/operator", "service/internal/proxy", "service/internal/proxy/condition", "service/internal/proxy/forward", "service/internal/proxy/limits", "service/internal/proxy/origins",
		"service/internal/proxy/plan",
	},
	"service/internal/connlimit":        {"service/internal/eventloop"},
	"service/internal/h2inline":         {"service/internal/h2inline/fieldblock", "service/internal/h2inline/message"},
	"service/internal/h2inline/message": {"service/internal/h2inline/fieldblock"},
	// The two sides of a link know the protocol, and not each other.
	"service/internal/peer":            {"service/internal/mismatch", "service/internal/peer/wire"},
	"service/internal/peer/serve":      {"service/internal/connlimit", "service/internal/peer/wire"},
	"service/internal/upstream":        {"service/internal/mismatch"},
	"service/internal/ring":            {"service/internal/peer", "service/internal/peer/wire", "service/internal/ring/census", "service/internal/ring/handover", "service/internal/ring/leaves", "service/internal/ring/local"},
	"service/internal/ring/leaves":     {"service/internal/server/decider"},
	"service/internal/ring/local":      {"service/internal/config", "service/internal/server/decider"},
	"service/internal/discover":        {"service/internal/ring/census"},
	"service/internal/servermetric":    {"service/internal/peer", "service/internal/peer/serve", "service/internal/ring", "service/internal/ring/census"},
	"service/internal/certfile":        {"service/internal/inputfile"},
	"service/internal/proxy/clients":   {"service/internal/connlimit"},
	"service/internal/proxy/origins":   {"service/internal/http1client"},
	"service/internal/proxy/condition": {"service/internal/proxyrule"},
	"service/internal/proxy/limits":    {"service/internal/proxy/origins", "service/internal/proxy/tally", "service/internal/proxyrule", "service/internal/settings"},
	"service/internal/proxy/forward": {
		"service/internal/proxy/clients", "service/internal/proxy/limits", "service/internal/proxy/origins", "service/internal/proxy/relay", "service/internal/proxy/tally", "service/internal/connlimit",
		"service/internal/http1client",
	},
	"service/internal/proxy/plan": {"service/internal/proxy/forward", "service/internal/proxy/limits", "service/internal/proxy/origins", "service/internal/proxy/tally", "service/internal/proxyrule", "service/internal/routeset", "service/internal/settings"},
	"service/internal/proxy": {
		"service/internal/proxy/plan", "service/internal/proxy/forward", "service/internal/proxy/condition", "service/internal/proxy/limits", "service/internal/proxy/tally", "service/internal/proxy/clients",
		"service/internal/proxy/origins", "service/internal/blackbox", "service/internal/logqueue", "service/internal/operator", "service/internal/proxyrule", "service/internal/settings",
	},
	"service/internal/proxyrule":        {"service/internal/routeset"},
	"metric":                            {"metric/internal/collector"},
	"metric/grpcmetric":                 {"grpclimit", "metric/internal/collector"},
	"weirotel":                          {"weirotel/internal/decision", "weirotel/internal/instrument"},
	"weirotel/grpcotel":                 {"grpclimit", "weirotel/internal/decision", "weirotel/internal/instrument"},
	"internal/measure":                  {"httpcache", "httpclient", "httplimit", "pressure", "internal/admission", "internal/caller"},
	"internal/admission":                {"internal/caller"},
	"internal/caller":                   {"internal/httpheader"},
	"service/internal/cli":              {"service/internal/unixsocket"},
	"service/internal/cli/clitest":      {"service/internal/cli"},
	"service/internal/rulecheck":        {"service/internal/proxyrule", "service/internal/terminal"},
	"service/internal/decisionlog":      {"service/internal/bytesize", "service/internal/match", "service/internal/server/decider", "service/internal/server/grant"},
	"service/internal/top":              {"service/internal/operator", "service/internal/proxy/proxypage", "service/internal/server/adminapi", "service/internal/terminal"},
	"service/internal/daemon/leaflinks": {"service/internal/peer/serve", "service/internal/peer/wire", "service/internal/server/token"},
	"service/internal/daemon": {
		"service/internal/blackbox", "service/internal/shedding", "service/internal/daemon/leaflinks", "service/internal/daemon/statefile", "service/internal/otlp", "service/internal/redisstore",
		"service/internal/discover", "service/internal/peer", "service/internal/peer/serve", "service/internal/peer/wire", "service/internal/ring", "service/internal/upstream",
		"service/internal/inputfile", "service/internal/certfile", "service/internal/server/adminapi", "service/internal/transport/grpcapi", "service/internal/transport/httpapi", "service/internal/transport/respapi",
		"service/internal/transport/rlqsapi", "service/internal/transport/weirapi", "service/internal/transport/weirapi/weirv1", "service/internal/server/token", "service/internal/servermetric", "service/internal/ring/census", "service/internal/connlimit",
		"service/internal/eventloop", "service/internal/h2inline", "service/internal/httpserve", "service/internal/logqueue", "service/internal/operator", "service/internal/supervisor",
	},
	"service/lab/internal/convert":  {"service/lab/internal/recorded", "service/lab/internal/trace"},
	"service/lab/internal/load":     {"service/lab/internal/pace", "service/lab/internal/trace"},
	"service/lab/internal/page":     {"service/lab/internal/plot"},
	"service/lab/internal/report":   {"service/lab/internal/page", "service/lab/internal/plot"},
	"service/lab/internal/origin":   {"service/internal/settings"},
	"service/lab/internal/recorded": {"service/lab/internal/sim", "service/lab/internal/trace"},
	"service/lab/internal/replay":   {"service/lab/internal/advise", "service/lab/internal/page", "service/lab/internal/plot", "service/lab/internal/recorded", "service/lab/internal/sim", "service/lab/internal/station"},
	"service/lab/internal/advise":   {"service/lab/internal/page", "service/lab/internal/plot", "service/lab/internal/recorded", "service/lab/internal/station"},
	"service/lab/internal/station":  {"service/lab/internal/recorded", "service/lab/internal/sim"},
	"service/lab/internal/incident": {"service/lab/internal/changepoint", "service/lab/internal/page", "service/lab/internal/recorded", "service/lab/internal/replay", "service/lab/internal/station"},
	"service/lab/internal/scenario": {"service/lab/internal/fleet", "service/lab/internal/recorded", "service/lab/internal/sim", "service/internal/strictyaml"},
	// The upstream of a simulated fleet is the server itself.
	"service/lab/internal/fleet":   {"service/internal/config", "service/internal/server", "service/internal/server/clock", "service/internal/server/decider"},
	"service/lab/internal/figure":  {"service/lab/internal/fleet", "service/lab/internal/scenario", "service/lab/internal/sim"},
	"service/lab/internal/picture": {"service/lab/internal/figure", "service/lab/internal/fleet", "service/lab/internal/plot", "service/lab/internal/sim"},
	"service/lab/internal/arena":   {"service/lab/internal/sim", "service/lab/internal/plot", "service/lab/internal/scenario", "service/lab/scenarios"},
	// The experiment has the middleware among its rows, as people use it.
	"service/lab/internal/sla": {"httplimit", "internal/admission", "service/lab/internal/load", "service/lab/internal/sim", "service/lab/internal/plot"},
	// The demonstration shows the proxy itself, on the page.
	"service/lab/internal/web":  {"service/internal/web"},
	"service/lab/internal/demo": {"service/internal/proxy", "service/internal/settings", "service/lab/internal/origin", "service/lab/internal/load", "service/lab/internal/plot"},
}

// banned are the packages of the standard library, with all below them, that a
// floor does without.
var banned = map[floor][]string{
	words:  {"sync", "net", "os", "log"},
	pure:   {"sync", "context", "net", "os", "log", "runtime", "syscall", "crypto/rand"},
	shells: {"net/http", "os", "log"},
}

// allowedHere lists imports that a package may have although its floor bans them.
var allowedHere = map[string][]string{
	"shape": {"os"}, // os.ErrDeadlineExceeded, which a net.Conn has to return
}

// bannedHere lists imports that a package must not have, besides its floor's. A service without
// gRPC links none of it.
var bannedHere = map[string][]string{
	"metric":                                {"google.golang.org/grpc"},
	"metric/internal/collector":             {"google.golang.org/grpc"},
	"weirotel":                              {"google.golang.org/grpc"},
	"weirotel/internal/decision":            {"google.golang.org/grpc"},
	"weirotel/internal/instrument":          {"google.golang.org/grpc"},
	"service/internal/server":               {"net"},
	"service/internal/server/assign":        {"net"},
	"service/internal/server/away":          {"net"},
	"service/internal/server/counts":        {"net"},
	"service/internal/server/memory":        {"net"},
	"service/internal/server/node":          {"net"},
	"service/internal/server/snapshot":      {"net"},
	"service/internal/server/store":         {"net"},
	"service/internal/server/tier":          {"net"},
	"service/internal/server/decider":       {"net"},
	"service/internal/server/grant":         {"net"},
	"service/internal/server/lease":         {"net"},
	"service/internal/server/lease/unknown": {"net"},
	"service/internal/server/quota":         {"net"},
	"service/internal/server/rules":         {"net"},
	"service/lab/internal/fleet":            {"sync"},
	"service/lab/internal/sim":              {"sync"},
}

// pictures draw, or encode what was drawn: weirlab alone has them.
var pictures = []string{"gonum.org/v1/plot", "golang.org/x/image", "image"}

// transports are the packages that speak a protocol of callers. They know a node as a decider.Decider, and not what serves
// their connections.
var transports = []string{
	"service/internal/transport/httpapi", "service/internal/transport/grpcapi", "service/internal/transport/respapi", "service/internal/transport/rlqsapi", "service/internal/transport/weirapi",
	"service/internal/transport/wirejson/jsonscan", "service/internal/transport/wirejson/batchjson", "service/internal/transport/wirejson/leafjson",
}

// unknownToTransports are packages that the transports do not import.
var unknownToTransports = []string{
	"service/internal/server", "service/internal/server/node", "service/internal/ring", "service/internal/peer", "service/internal/peer/serve", "service/internal/peer/wire", "service/internal/daemon",
	"service/internal/h2inline", "service/internal/h2inline/fieldblock", "service/internal/h2inline/message", "service/internal/httpserve",
}

// A File is one file of Go source, named from the module's root.
type File struct{ Name, Source string }

// A Breach is a rule that a file breaks.
type Breach struct {
	At   token.Position
	What string
}

func (b Breach) String() string {
	return fmt.Sprintf("%s:%d: %s", b.At.Filename, b.At.Line, b.What)
}

// Check returns what breaks the rules, in order of place. Files that do not
// parse are an error.
func Check(files []File) ([]Breach, error) {
	c := checker{fset: token.NewFileSet()}
	for _, f := range files {
		if err := c.check(f); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(c.breaches, func(a, b Breach) int {
		return cmp.Or(cmp.Compare(a.At.Filename, b.At.Filename), cmp.Compare(a.At.Offset, b.At.Offset))
	})
	return c.breaches, nil
}

type checker struct {
	fset     *token.FileSet
	breaches []Breach

	// Of the file at hand.
	pkg    string
	floor  floor
	tested bool // it is a test
}

func (c *checker) breach(at token.Pos, format string, args ...any) {
	c.breaches = append(c.breaches, Breach{c.fset.Position(at), fmt.Sprintf(format, args...)})
}

func (c *checker) check(f File) error {
	file, err := parser.ParseFile(c.fset, f.Name, f.Source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	c.pkg = strings.TrimPrefix(path.Dir(f.Name), ".")
	c.tested = strings.HasSuffix(f.Name, "_test.go")
	var known bool
	if c.floor, known = packages[c.pkg]; !known {
		c.breach(file.Package, "package %q is on no floor: add it to internal/floors", c.pkg)
		return nil
	}
	for _, i := range file.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		c.checkImport(i, name)
	}
	if !c.tested && (c.floor == pure || c.pkg == "service/lab/internal/sim" || c.pkg == "service/lab/internal/fleet") {
		c.checkPurity(file)
	}
	if !c.tested && c.floor <= shells {
		c.checkGlobals(file)
	}
	if !c.tested && c.floor <= modules && !internal(c.pkg) {
		c.checkExported(file)
	}
	if !c.tested && c.floor <= core {
		c.checkWall(file)
	}
	return nil
}

func (c *checker) checkImport(i *ast.ImportSpec, name string) {
	first, _, _ := strings.Cut(name, "/")
	own, ours := strings.CutPrefix(name, Module)
	switch {
	case ours && (own == "" || own[0] == '/'):
		if inLab(own) && !inLab("/"+c.pkg) {
			c.breach(i.Pos(), "imports %s: weir does without the laboratory", own[1:])
		} else if !c.tested {
			c.checkOurs(i, strings.TrimPrefix(own, "/"))
		}
	case strings.Contains(first, ".") && c.floor <= edges:
		c.breach(i.Pos(), "imports %s: the library uses the standard library only", name)
	case !c.tested && !inLab("/"+c.pkg) && slices.ContainsFunc(pictures, func(p string) bool { return within(name, p) }):
		c.breach(i.Pos(), "imports %s: weir draws no pictures", name)
	case !c.tested:
		for _, b := range slices.Concat(banned[c.floor], bannedHere[c.pkg]) {
			if within(name, b) && !slices.Contains(allowedHere[c.pkg], name) {
				c.breach(i.Pos(), "imports %s, which its floor does without", name)
			}
		}
	}
}

// inLab reports whether a path is one of the laboratory, which is a separate module and binary.
func inLab(path string) bool { return within(path, "/service/lab") }

// within reports whether a path is another one, or below it.
func within(path, other string) bool { return path == other || strings.HasPrefix(path, other+"/") }

func (c *checker) checkOurs(i *ast.ImportSpec, imported string) {
	below, known := packages[imported]
	switch {
	case slices.Contains(transports, c.pkg) && slices.Contains(unknownToTransports, imported):
		c.breach(i.Pos(), "imports %s, which no transport knows", imported)
	case !known, slices.Contains(sideways[c.pkg], imported):
	case below >= c.floor && c.floor != binary:
		c.breach(i.Pos(), "imports %s, which is not below it", imported)
	case below >= edges && c.floor == lab:
		c.breach(i.Pos(), "imports %s: the lab stands on the shells, not on the edges", imported)
	}
}
