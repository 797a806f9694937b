package app

import "github.com/verdictproxy/verdict/internal/config"

// CheckCmd says what a configuration means.
type CheckCmd struct {
	File string `arg:"" optional:""`
}

func (c CheckCmd) Run(s streams) error {
	_, err := config.Load(c.File)
	return err
}
