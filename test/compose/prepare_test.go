package compose

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Bounds of what depends on other machines. Nothing here waits without end, and nothing is skipped.
const (
	pullLimit   = time.Minute     // for one image
	scriptLimit = 4 * time.Minute // for one run of the script
	scriptRuns  = 3
)

// prepare sees to an engine and to every image that the compose file and the Dockerfiles name. Where there
// is no engine, or an image cannot be pulled, the script named by STANDIN_IMAGES has to.
func prepare(log func(string, ...any)) error {
	missing, err := missingImages()
	if err == nil {
		for _, image := range missing {
			if err = pull(image); err != nil {
				break
			}
		}
		if err == nil {
			return nil
		}
	}
	script := os.Getenv("STANDIN_IMAGES")
	if _, statErr := os.Stat(script); statErr != nil {
		return fmt.Errorf("%w; and there is no script that could help: STANDIN_IMAGES: %w", err, statErr)
	}
	log("%v: asking %s", err, script)
	for run := range scriptRuns {
		var out []byte
		if out, err = command(scriptLimit, script, "-s", "docker-compose.yml"); err == nil {
			break
		}
		err = fmt.Errorf("%w\n%s", err, tail(out))
		log("run %d of %d: %v", run+1, scriptRuns, err)
	}
	if err != nil {
		return err
	}
	missing, err = missingImages()
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("still no image %q", missing)
	}
	return err
}

// missingImages are those that would have to be pulled. An error is an engine, or a compose, that is not
// there.
func missingImages() ([]string, error) {
	if out, err := command(20*time.Second, "docker", "info"); err != nil {
		return nil, fmt.Errorf("no engine answers: %w\n%s", err, tail(out))
	}
	images, err := command(20*time.Second, "docker", "compose", "-f", "docker-compose.yml", "config", "--images")
	if err != nil {
		return nil, fmt.Errorf("no docker compose: %w\n%s", err, tail(images))
	}
	names := strings.Fields(string(images))
	for _, file := range []string{"Dockerfile", "compose/Dockerfile"} {
		text, err := os.ReadFile(root + "/" + file)
		if err != nil {
			return nil, err
		}
		for _, from := range fromLine.FindAllStringSubmatch(string(text), -1) {
			if from[1] != "scratch" {
				names = append(names, from[1])
			}
		}
	}
	slices.Sort(names)
	var missing []string
	for _, name := range slices.Compact(names) {
		if strings.HasSuffix(name, ":compose") { // built here
			continue
		}
		if _, err := command(20*time.Second, "docker", "image", "inspect", name); err != nil {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

var fromLine = regexp.MustCompile(`(?m)^FROM (\S+)`)

func pull(image string) error {
	out, err := command(pullLimit, "docker", "pull", "--quiet", image)
	if err != nil {
		return fmt.Errorf("docker pull %s: %w\n%s", image, err, tail(out))
	}
	return nil
}

// command runs a program in the repository's root. Its output is what it has written to both streams.
func command(limit time.Duration, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = root
	cmd.WaitDelay = 5 * time.Second // an engine that it has started keeps its output open
	out, err := cmd.CombinedOutput()
	if errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success() {
		err = nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%s %.60q: not done after %v", name, args, limit)
	}
	return out, err
}

func tail(out []byte) []byte { return out[max(0, len(out)-4000):] }
