package httpapi_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// A contract is openapi.yaml, which all answers in the tests are checked against.
type contract struct {
	doc      map[string]any
	mu       sync.Mutex // guards what follows
	compiler *jsonschema.Compiler
}

var theContract = sync.OnceValue(func() *contract {
	a, err := httpapi.New(nil, httpapi.Config{})
	if err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest("GET", "/openapi.json", nil))
	c := &contract{compiler: jsonschema.NewCompiler()}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(w.Body.Bytes()))
	if err != nil {
		panic(err)
	}
	c.doc = doc.(map[string]any)
	c.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := c.compiler.AddResource("openapi.json", doc); err != nil {
		panic(err)
	}
	return c
})

// at returns what is at a place in the document, or behind the $ref there, and
// that place. There are no members but objects on the way.
func (c *contract) at(place ...string) (map[string]any, []string) {
	var v any = c.doc
	for _, name := range place {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	object, _ := v.(map[string]any)
	if ref, ok := object["$ref"].(string); ok {
		return c.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return object, place
}

// template returns the path of the document that a path matches.
func (c *contract) template(u *url.URL) (string, bool) {
	if u.Path == "/debug/" {
		return "/debug", true
	}
	parts := strings.Split(u.EscapedPath(), "/")
	if root, _, _ := strings.Cut(u.Path[1:], "/"); len(parts) > 1 {
		parts[1] = root
	}
	if parts[1] == "check" {
		parts = parts[:min(len(parts), 3)]
	}
	paths, _ := c.at("paths")
	for path := range paths {
		want := strings.Split(path, "/")
		if len(want) == len(parts) && want[1] == parts[1] {
			return path, true
		}
	}
	return "", false
}

// check fails the test unless the document has the answer.
func (c *contract) check(t testing.TB, r *http.Request, a *answer) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	what := fmt.Sprintf("%s %.80s: %d", r.Method, r.URL, a.status)
	path, known := c.template(r.URL)
	operation, _ := c.at("paths", path, strings.ToLower(r.Method))
	if !known || operation == nil {
		if known != (a.status == http.StatusMethodNotAllowed) || !known && a.status != http.StatusNotFound {
			t.Errorf("%s: openapi.yaml has no such endpoint", what)
		}
		return
	}
	response, place := c.at("paths", path, strings.ToLower(r.Method), "responses", fmt.Sprint(a.status))
	if response == nil && a.status/100 == 4 {
		response, place = c.at("paths", path, strings.ToLower(r.Method), "responses", "4XX")
	}
	if response == nil {
		t.Errorf("%s: openapi.yaml has no such status", what)
		return
	}
	c.checkHeaders(t, what, place, a)
	c.checkBody(t, what, r, place, a)
}

// checkHeaders fails the test unless the headers that mean something are there.
func (c *contract) checkHeaders(t testing.TB, what string, place []string, a *answer) {
	t.Helper()
	headers, _ := c.at(append(place[:len(place):len(place)], "headers")...)
	for _, name := range []string{"RateLimit", "RateLimit-Policy", "Retry-After", "Weir-Degraded"} {
		if a.header.Get(name) != "" && headers[name] == nil {
			t.Errorf("%s: openapi.yaml has no %s", what, name)
		}
	}
}

func (c *contract) checkBody(t testing.TB, what string, r *http.Request, place []string, a *answer) {
	t.Helper()
	kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	content, _ := c.at(append(place[:len(place):len(place)], "content", kind)...)
	if all, _ := c.at(append(place[:len(place):len(place)], "content")...); all == nil && a.body == "" {
		return // an answer without a body
	}
	if content == nil {
		t.Errorf("%s: openapi.yaml has no %s", what, kind)
		return
	}
	if r.Method == http.MethodHead {
		return
	}
	pointer := ""
	for _, name := range append(place[:len(place):len(place)], "content", kind, "schema") {
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	schema, err := c.compiler.Compile("openapi.json#" + (&url.URL{Path: pointer}).EscapedPath())
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for _, body := range bodies(kind, a.body) {
		if err := schema.Validate(body); err != nil {
			t.Errorf("%s: %.200s: %v", what, a.body, err)
		}
	}
}

// bodies returns the values that a body holds.
func bodies(kind, body string) (values []any) {
	switch kind {
	case "text/plain":
		return []any{body}
	case "application/x-ndjson":
		for line := range strings.Lines(body) {
			values = append(values, decoded(line))
		}
		return values
	}
	return []any{decoded(body)}
}

func decoded(text string) any {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err.Error() // no schema of an object has that
	}
	return v
}

// All endpoints are in the document, and no others; with their parameters.
func TestOpenAPIHasTheEndpoints(t *testing.T) {
	documented := map[string]string{}
	paths, _ := theContract().at("paths")
	for path := range paths {
		item, _ := theContract().at("paths", path)
		for method := range item {
			if method == "parameters" {
				continue
			}
			documented[strings.ToUpper(method)+" "+path] = parameters(t, item["parameters"]) + parameters(t, item[method].(map[string]any)["parameters"])
		}
	}
	for endpoint, params := range httpapi.Endpoints() {
		if got, ok := documented[endpoint]; !ok || got != params {
			t.Errorf("%s: openapi.yaml has %q: want %q (%v)", endpoint, got, params, ok)
		}
		delete(documented, endpoint)
	}
	for endpoint := range documented {
		t.Errorf("openapi.yaml has %s: there is no such", endpoint)
	}
}

// docs/serve-reference.md has all endpoints for callers, and no others, with the parameters of their queries.
func TestDocumentedRequests(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/serve-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Requests\n")
	section, _, _ = strings.Cut(section, "\n## ")
	want := map[string]bool{}
	for endpoint, params := range httpapi.Endpoints() {
		method, path, _ := strings.Cut(endpoint, " ")
		if method == "HEAD" || strings.HasPrefix(path, "/check") {
			continue
		}
		var query []string
		for _, name := range strings.Fields(params) {
			if name != "key" && name != "id" && name != "ik" {
				query = append(query, "`"+name+"`")
			}
		}
		want["| `"+endpoint+"` | "+strings.Join(query, ", ")] = true
	}
	for _, row := range regexp.MustCompile("(?m)^(\\| `[A-Z].*?` \\| .*?) ?\\| ").FindAllStringSubmatch(section, -1) {
		if !want[row[1]] {
			t.Errorf("docs/serve-reference.md: there is no %s", row[1])
		}
		delete(want, row[1])
	}
	for row := range want {
		t.Errorf("docs/serve-reference.md: %s: is missing", row)
	}
}

// parameters returns the names of parameters in the path or in the query.
func parameters(t *testing.T, list any) (names string) {
	t.Helper()
	all, _ := list.([]any)
	for _, p := range all {
		object := p.(map[string]any)
		if ref, ok := object["$ref"].(string); ok {
			object, _ = theContract().at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		if object["in"] != "header" {
			names += fmt.Sprint(object["name"], " ")
		}
	}
	return names
}

// All schemas can be compiled.
func TestOpenAPISchemas(t *testing.T) {
	c := theContract()
	schemas, _ := c.at("components", "schemas")
	for name := range schemas {
		if _, err := c.compiler.Compile("openapi.json#/components/schemas/" + name); err != nil {
			t.Error(err)
		}
	}
	if version, _ := c.doc["openapi"].(string); !strings.HasPrefix(version, "3.1.") {
		t.Errorf("openapi: %v", c.doc["openapi"])
	}
}
