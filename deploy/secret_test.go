package deploy_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/fake"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"helm.sh/helm/v4/pkg/engine"
)

// A cluster has the objects that the templates can look up.
type cluster struct{ client dynamic.Interface }

func (c cluster) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	return c.client.Resource(schema.FromAPIVersionAndKind(apiVersion, kind).GroupVersion().WithResource(strings.ToLower(kind) + "s")), true, nil
}

// The secrets of peers and operators are random, and long; an upgrade keeps those of the cluster. The file of tokens
// has only their hashes.
func TestSecrets(t *testing.T) {
	for _, tt := range []struct{ name, file, key string }{
		{"shop-weir-peers", "secret.yaml", "secret"}, {"shop-weir-admin", "adminsecret.yaml", "operator"}, {"shop-weir-admin", "adminsecret.yaml", "prometheus"},
	} {
		t.Run(tt.name+" "+tt.key, func(t *testing.T) { keepsSecret(t, tt.name, tt.file, tt.key) })
	}
}

func keepsSecret(t *testing.T, name, file, key string) {
	secret := func(objects ...runtime.Object) string {
		t.Helper()
		client := fake.NewSimpleDynamicClient(clientscheme.Scheme, objects...)
		chart, all := chartValues(t, "shop", parse(t, `mode: peers`))
		texts, err := engine.RenderWithClientProvider(chart, all, cluster{client})
		if err != nil {
			t.Fatal(err)
		}
		s := decode(t, []string{texts["weir/templates/"+file]}).secrets[0]
		if s.Name != name || s.Annotations["helm.sh/hook"] != "" {
			t.Errorf("%+v", s)
		}
		value := string(s.Data[key]) + s.StringData[key]
		if hash := sha256.Sum256([]byte(value)); file == "adminsecret.yaml" && (!strings.Contains(s.StringData["tokens.yaml"], "sha256: "+hex.EncodeToString(hash[:])) ||
			strings.Contains(s.StringData["tokens.yaml"], value)) {
			t.Errorf("%s: want the hash of %s", s.StringData["tokens.yaml"], value)
		}
		return value
	}
	first, second := secret(), secret()
	if len(first) < 32 || first == second {
		t.Errorf("secrets %q, %q: want two random ones", first, second)
	}
	kept := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "limits"},
		Data:       map[string][]byte{key: []byte(first)},
	}
	if third := secret(kept); third != first {
		t.Errorf("secret %q after an upgrade: want %q", third, first)
	}
}
