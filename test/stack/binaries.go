package stack

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// EnvoyVersion is the Envoy that runs where nothing else is said. OldestEnvoy is the oldest one that
// envoy/hop.yaml is written for.
const (
	EnvoyVersion = "1.40.0"
	OldestEnvoy  = "1.36.4"
)

// FindEnvoy returns the path of Envoy's binary: the environment's ENVOY for EnvoyVersion, or what
// `make tools` has put into .tools.
func FindEnvoy(version string) (string, error) {
	if path := os.Getenv("ENVOY"); path != "" && version == EnvoyVersion {
		return path, nil
	}
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, ".tools", "envoy-"+version)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no Envoy %s: run `make tools`, or set ENVOY: %w", version, err)
	}
	return path, nil
}

// Root returns the repository's root: the nearest folder, from the current one upwards, with a go.mod.
func Root() (string, error) {
	start, err := os.Getwd()
	for dir := start; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			err = errors.New("no go.mod in or above " + start)
			return "", err
		}
	}
	return "", err
}

// BuildExtproc builds the service into the folder dir and returns the binary's path. Where this
// program was built with the race detector, so is the service.
func BuildExtproc(dir string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "extproc")
	args := []string{"build", "-o", binary}
	if raceDetector {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/extproc")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/extproc: %w\n%s", err, out)
	}
	return binary, nil
}
