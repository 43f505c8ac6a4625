// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestImageHoldsTheProgramAndDependsOnNothingElse(t *testing.T) {
	for name, level := range map[string]int{"compressed": gzip.DefaultCompression, "uncompressed": gzip.NoCompression} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			program, output := filepath.Join(folder, "program"), filepath.Join(folder, "out", "image.tar")
			var digests [2]v1.Hash
			for i := range digests {
				if err := os.WriteFile(program, []byte("text"), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(program, time.Time{}, time.Unix(int64(i+1)*1000, 0)); err != nil {
					t.Fatal(err)
				}
				if err := write(output, v1.Config{User: "65532:65532"}, "", level, []string{"a:dev,b:dev=" + program}); err != nil {
					t.Fatal(err)
				}
				image, err := tarball.ImageFromPath(output, nil)
				if err != nil {
					t.Fatal(err)
				}
				if digests[i], err = image.Digest(); err != nil {
					t.Fatal(err)
				}
			}
			if digests[0] != digests[1] {
				t.Error("the image changes with the program's time")
			}
			checkImage(t, output)
		})
	}
}

// checkImage: one image with two names, of one layer, that runs the program.
func checkImage(t *testing.T, archive string) {
	t.Helper()
	manifest, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(archive) })
	if err != nil || len(manifest) != 1 || len(manifest[0].RepoTags) != 2 {
		t.Fatalf("manifest %+v, %v; want one image with two names", manifest, err)
	}
	image, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c := config.Config; len(c.Entrypoint) != 1 || c.Entrypoint[0] != "/program" || c.User != "65532:65532" {
		t.Errorf("config %+v", c)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	checkEntry(t, layers[0])
}

// checkEntry: the layer begins with the program, which is root's.
func checkEntry(t *testing.T, layer v1.Layer) {
	t.Helper()
	content, err := layer.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	header, err := tar.NewReader(content).Next()
	if err != nil || header.Name != "program" || header.Mode != 0o755 || header.Uid != 0 {
		t.Errorf("first entry %+v, %v", header, err)
	}
}
