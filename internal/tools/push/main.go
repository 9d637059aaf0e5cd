// Push pushes the images and the chart of a release to a registry:
//
//	go run ./push -from ../../bin/release -to ghcr.io/weir-go -version v1.2.3
//
// The images of all architectures become one, weir:1.2.3, which is also weir:latest unless it is a pre-release. The chart
// becomes charts/weir:1.2.3. Push prints both digests, as image=sha256:… and chart=sha256:…. Credentials come from docker
// login. A second push of the same files changes nothing.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("push: ")
	from := flag.String("from", ".", "the directory with the archives")
	to := flag.String("to", "", "the registry, and the path in it")
	version := flag.String("version", "", "the version of the release")
	flag.Parse()
	if err := push(*from, *to, strings.TrimPrefix(*version, "v")); err != nil {
		log.Fatal(err)
	}
}

// push pushes both, and prints their digests.
func push(from, to, version string) error {
	work, err := os.MkdirTemp("", "weir-push")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	archives, err := filepath.Glob(filepath.Join(from, "weir_linux_*.oci.tar"))
	if err != nil || len(archives) == 0 {
		return errors.Join(fmt.Errorf("no images in %s", from), err)
	}
	image, err := pushImage(work, archives, to+"/weir", version)
	if err != nil {
		return fmt.Errorf("the image: %w", err)
	}
	fmt.Printf("image=%s\n", image)
	chart, err := pushChart(work, filepath.Join(from, "weir_chart.oci.tar"), to+"/charts/weir", version)
	if err != nil {
		return fmt.Errorf("the chart: %w", err)
	}
	fmt.Printf("chart=%s\n", chart)
	return nil
}

// credentials come from docker login.
var credentials = remote.WithAuthFromKeychain(authn.DefaultKeychain)

// pushImage pushes the images of all architectures as one.
func pushImage(work string, archives []string, to, version string) (v1.Hash, error) {
	repository, err := name.NewRepository(to)
	if err != nil {
		return v1.Hash{}, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, archive := range archives {
		image, err := read(work, archive)
		if err != nil {
			return v1.Hash{}, err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return v1.Hash{}, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: config.Platform()}})
	}
	index = mutate.Annotations(index, map[string]string{
		"org.opencontainers.image.source":   "https://github.com/weir-go/weir",
		"org.opencontainers.image.version":  version,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}).(v1.ImageIndex)
	if err := remote.WriteIndex(repository.Tag(version), index, credentials); err != nil {
		return v1.Hash{}, err
	}
	if !strings.Contains(version, "-") {
		if err := remote.Tag(repository.Tag("latest"), index, credentials); err != nil {
			return v1.Hash{}, err
		}
	}
	return index.Digest()
}

// pushChart pushes the chart, as helm push does.
func pushChart(work, archive, to, version string) (v1.Hash, error) {
	chart, err := read(work, archive)
	if err != nil {
		return v1.Hash{}, err
	}
	repository, err := name.NewRepository(to)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := remote.Write(repository.Tag(version), chart, credentials); err != nil {
		return v1.Hash{}, err
	}
	return chart.Digest()
}

// read returns the one image of an archive of an OCI image layout. Its files stay in the directory work.
func read(work, archive string) (v1.Image, error) {
	dir := filepath.Join(work, filepath.Base(archive))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if said, err := exec.Command("tar", "-xf", archive, "-C", dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", archive, err, said)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archive, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", archive, err)
	}
	if n := len(manifest.Manifests); n != 1 {
		return nil, fmt.Errorf("%s has %d images: want one", archive, n)
	}
	return index.Image(manifest.Manifests[0].Digest)
}
