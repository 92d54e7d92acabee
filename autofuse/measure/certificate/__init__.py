"""Certificates: the known properties of one kernel, their evidence, and open questions."""

from autofuse.measure.certificate.certify import certify
from autofuse.measure.certificate.schema import SCHEMA, certificate_schema

__all__ = ["SCHEMA", "certificate_schema", "certify"]
