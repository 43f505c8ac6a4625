// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

// Command image writes an archive of container images, each of one layer, that
// `docker load`, `ctr images import` and `kind load image-archive` read. It needs
// no container engine.
//
//	image -o FILE [-user UID:GID] NAME=PATH ...
//
// PATH is a program, which becomes the image's only file and its entry point,
// or a folder, which becomes its root. NAMEs of one PATH, separated by commas,
// name one image. The entry point of a folder is -entrypoint. An image
// depends on nothing but the files: owners, times and the order are fixed.
// -level 0 writes large images many times faster, for clusters on this machine.
package main

import (
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	output := flag.String("o", "", "the archive to write")
	user := flag.String("user", "", "UID:GID that the image's program runs as; root when empty")
	entrypoint := flag.String("entrypoint", "", "what an image made of a folder runs")
	level := flag.Int("level", gzip.DefaultCompression, "of gzip for the layers, 0 (none) to 9")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: image -o FILE [-user UID:GID] [-entrypoint PROGRAM] [-level N] NAME[,NAME...]=PATH ...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *output == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(*output, v1.Config{User: *user}, *entrypoint, *level, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// write makes the images and moves the archive to its place when it is whole.
func write(output string, config v1.Config, entrypoint string, level int, specs []string) error {
	images := map[name.Reference]v1.Image{}
	for _, spec := range specs {
		names, path, found := strings.Cut(spec, "=")
		if !found {
			return fmt.Errorf("%q: want NAME=PATH", spec)
		}
		image, err := fromPath(path, config, entrypoint, level)
		if err != nil {
			return fmt.Errorf("%s: %w", names, err)
		}
		for n := range strings.SplitSeq(names, ",") {
			tag, err := name.NewTag(n)
			if err != nil {
				return err
			}
			images[tag] = image
		}
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return err
	}
	if err := tarball.MultiRefWriteToFile(output+".new", images); err != nil {
		return err
	}
	return os.Rename(output+".new", output)
}

func fromPath(path string, config v1.Config, entrypoint string, level int) (v1.Image, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		entrypoint = "/" + filepath.Base(path)
	}
	if entrypoint != "" {
		config.Entrypoint = []string{entrypoint}
	}
	layer, err := layerOf(path, level)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	return mutate.ConfigFile(image, file)
}
