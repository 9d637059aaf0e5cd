package deploy_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// values are a file of values, or a part of one.
type values = map[string]any

// parse returns the values of a text.
func parse(t *testing.T, text string) (v values) {
	t.Helper()
	must(t, yaml.UnmarshalStrict([]byte(text), &v))
	return v
}

// chartValues returns the chart, and what its templates see of values.
func chartValues(t *testing.T, release string, v values) (*chart.Chart, common.Values) {
	t.Helper()
	c, all, err := load("helm/weir", release, v)
	must(t, err)
	return c, all
}

// load returns the chart of a folder or an archive, and what its templates see of values.
func load(path, release string, v values) (*chart.Chart, common.Values, error) {
	c, err := loader.Load(path)
	if err != nil {
		return nil, nil, err
	}
	options := common.ReleaseOptions{Name: release, Namespace: "limits", Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(c, v, options, nil)
	return c, all, err
}

// render renders the chart as helm install does, without access to a cluster. It returns
// the text of every template by the name of its file.
func render(release string, v values) (map[string]string, error) {
	return renderChart("helm/weir", release, v)
}

// renderChart is render for the chart of a folder or an archive.
func renderChart(path, release string, v values) (map[string]string, error) {
	c, all, err := load(path, release, v)
	if err != nil {
		return nil, err
	}
	texts, err := engine.Engine{Strict: true}.RenderWithContext(context.Background(), c, all)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for name, text := range texts {
		files[filepath.Base(name)] = text
	}
	return files, nil
}

// documents returns the objects of a rendering, in the order in which they are applied.
func documents(files map[string]string) (docs []string) {
	order := []string{"serviceaccount", "configmap", "dashboard", "secret", "adminsecret", "persistentvolumeclaim", "service", "deployment", "statefulset",
		"horizontalpodautoscaler", "poddisruptionbudget", "networkpolicy", "servicemonitor", "prometheusrule"}
	place := func(name string) int { return slices.Index(order, strings.TrimSuffix(name, ".yaml")) }
	names := slices.DeleteFunc(slices.Collect(maps.Keys(files)), func(name string) bool { return filepath.Ext(name) != ".yaml" })
	slices.SortFunc(names, func(a, b string) int { return place(a) - place(b) })
	for _, name := range names {
		if place(name) < 0 {
			panic(name + " has no place in the order of objects")
		}
		for _, doc := range strings.Split(files[name], "\n---\n") {
			if doc = strings.TrimSpace(strings.TrimPrefix(doc, "---\n")); doc != "" {
				docs = append(docs, doc)
			}
		}
	}
	return docs
}

// cases are the values of the tests: the files of testdata/values, and the plain
// manifests.
func cases(t *testing.T) map[string]values {
	t.Helper()
	all := map[string]values{}
	for name, p := range plain {
		all[name] = parse(t, p.values)
	}
	files, err := filepath.Glob("testdata/values/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files of values: %v", len(files), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		must(t, err)
		all[name] = parse(t, string(text))
	}
	return all
}

func TestLint(t *testing.T) {
	for name, v := range cases(t) {
		for _, m := range lint.RunAll("helm/weir", v, "limits").Messages {
			if !strings.Contains(m.Err.Error(), "icon is recommended") {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// Every template has a valid rendering for all values, and notes that name the Service.
func TestRender(t *testing.T) {
	for name, v := range cases(t) {
		files, err := render("shop", v)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		notes := files["NOTES.txt"]
		if !regexp.MustCompile(`(?m)^  https?://(shop-weir|own)\.limits:\d+$`).MatchString(notes) || strings.Contains(notes, "<no value>") {
			t.Errorf("%s: notes:\n%s", name, notes)
		}
		o := decode(t, documents(files))
		o.check(t, name, v)
	}
}

// The values of the chart are all in its schema, and each has a comment or a name that
// tells what it is.
func TestValues(t *testing.T) {
	text, err := os.ReadFile("helm/weir/values.yaml")
	must(t, err)
	schema, err := os.ReadFile("helm/weir/values.schema.json")
	must(t, err)
	var s struct {
		Properties map[string]struct{ Properties values }
	}
	must(t, yaml.Unmarshal(schema, &s))
	for key := range parse(t, string(text)) {
		if _, ok := s.Properties[key]; !ok {
			t.Errorf("%s: not in the schema", key)
		}
		delete(s.Properties, key)
		if !strings.Contains(string(text), "\n"+key+":") {
			t.Errorf("%s: not at the beginning of a line", key)
		}
	}
	delete(s.Properties, "global") // of Helm
	for key := range s.Properties {
		t.Errorf("%s: not in values.yaml", key)
	}
}

// Values that contradict each other, or that no template knows, are an error that names
// them.
func TestWrongValues(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		{`mode: ring`, `'/mode': value must be one of 'single', 'store', 'peers', 'leaf', 'proxy'`},
		{`modes: single`, `additional properties 'modes' not allowed`},
		{`peers: {discover: dns}`, `'/peers': additional properties 'discover' not allowed`},
		{`replicas: 0`, `'/replicas': minimum: got 0, want 1`},
		{`replicas: 3`, `replicas = 3: mode single has 1 replica, because each replica would grant every key its whole quota: use mode store or peers`},
		{`autoscaling: {enabled: true}`, `autoscaling.enabled = true: mode single has 1 replica: use mode store or peers`},
		{`mode: store`, `mode = store: set store.url, or store.existingSecret to the name of a Secret with the URL`},
		{`{mode: store, store: {url: "http://redis"}}`, `'/store/url': 'http://redis' does not match pattern`},
		{`{mode: store, store: {url: "redis://redis", existingSecret: redis}}`, `store.url and store.existingSecret exclude each other`},
		{`{mode: store, replicas: 4, store: {existingSecret: redis}}`, `replicas = 4: the autoscaler sets the number of replicas`},
		{`{mode: store, store: {existingSecret: redis}, autoscaling: {minReplicas: 20}}`, `autoscaling.minReplicas = 20: must be <= autoscaling.maxReplicas = 10`},
		{`{mode: store, store: {existingSecret: redis}, state: {enabled: true}}`, `state.enabled = true: mode store keeps no state on a volume`},
		{`{store: {url: "redis://redis"}}`, `store.url, store.existingSecret: need mode store, not single`},
		{`{mode: peers, autoscaling: {enabled: true}}`, `autoscaling.enabled = true: needs peers.discovery dns or kubernetes`},
		{`{mode: peers, peers: {discovery: gossip}}`, `'/peers/discovery': value must be one of 'static', 'dns', 'kubernetes'`},
		{`{peers: {existingSecret: a}}`, `peers.existingSecret: needs mode peers, not single`},
		{`mode: leaf`, `mode = leaf: set leaf.upstream to the URL of a weir that owns the limits, such as http://weir`},
		{`{mode: leaf, leaf: {upstream: weir}}`, `'/leaf/upstream': 'weir' does not match pattern`},
		{`{mode: leaf, leaf: {upstream: "http://weir", zones: [a, a]}}`, `'/leaf/zones': items at 0 and 1 are equal`},
		{`leaf: {zones: [a]}`, `leaf.upstream, leaf.zones, leaf.tokenSecret: need mode leaf, not single`},
		{`{admin: {auth: false}, serviceMonitor: {tokenSecret: {name: a}}}`, `admin.existingSecret, serviceMonitor.tokenSecret: need admin.auth`},
		{`{mode: peers, replicas: 2}`, `replicas = 2: mode peers needs 3 or more, because two instances cannot tell the death of the other one from a broken network`},
		{`{mode: peers, peers: {discovery: dns}, autoscaling: {enabled: true, minReplicas: 2}}`, `autoscaling.minReplicas = 2: mode peers needs 3 or more`},
		{`mode: proxy`, `mode = proxy: set proxy.origins to the URLs of the origins, such as http://app:8000`},
		{`proxy: {origins: ["http://app"]}`, `proxy.origins, proxy.trust, proxy.healthPath: need mode proxy, not single`},
		{`{mode: proxy, proxy: {origins: [app]}}`, `'/proxy/origins/0': 'app' does not match pattern`},
		{`{mode: proxy, proxy: {origins: ["http://app"]}, tokens: {existingSecret: a}}`, `tokens.existingSecret: mode proxy has none of them`},
		{`{mode: proxy, proxy: {origins: ["http://app"]}, state: {enabled: true}}`, `state.enabled = true: mode proxy keeps no state on a volume`},
		{`image: {digest: "sha256:0"}`, `'/image/digest': 'sha256:0' does not match pattern`},
		{`admin: {tls: true}`, `admin.tls, tls.clientCA: need tls.existingSecret`},
		{`{resp: {enabled: true, port: 8080}}`, `resp.port = 8080: another listener has this port`},
		{`{resp: {enabled: true}, grpc: {enabled: true, port: 6379}}`, `port = 6379: another listener has this port`},
		{`shutdown: {graceSeconds: 1m}`, `'/shutdown/graceSeconds': got string, want integer`},
		{`goMemLimit: 1Gi`, `'/goMemLimit': '1Gi' does not match pattern`},
	} {
		_, err := render("shop", parse(t, c.values))
		if err == nil || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%s: %v: want %s", c.values, err, c.want)
		}
	}
}
