package app

import (
	"fmt"
	"runtime/debug"
)

// VersionCmd says which build this is.
type VersionCmd struct{}

// Run writes version, revision and Go version on one line; what the build does not say is "unknown".
func (VersionCmd) Run(s streams) error {
	version, revision, goVersion := "unknown", "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version, goVersion = info.Main.Version, info.GoVersion
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				revision = setting.Value
			}
		}
	}
	_, err := fmt.Fprintf(s.out, "extproc %s, revision %s, %s\n", version, revision, goVersion)
	return err
}
